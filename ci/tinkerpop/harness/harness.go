// Package harness names TinkerPop's harness for Go, so that this module has what
// its tests need. Package tinkerpop builds them.
package harness

import _ "github.com/apache/tinkerpop/gremlin-go/v3/driver/cucumber" // whose test is the harness
