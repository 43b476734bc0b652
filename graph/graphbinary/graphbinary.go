// Package graphbinary has GraphBinary, the binary encoding of values, of traversals
// and of messages of Gremlin drivers: version 1.0, which drivers of TinkerPop 3
// speak over WebSocket, and 4.0, which those of TinkerPop 4 read over HTTP.
//
// It knows types, lengths and flags as bytes. It must not know connections, what
// a request is answered with, or what a traversal does. Version 1.0 is described
// at https://tinkerpop.apache.org/docs/3.8.1/dev/io/#graphbinary. version.go has
// what is different in 4.0.
package graphbinary

import "github.com/skerrydb/skerry/graph/value"

// Names of the encodings in messages to a server, and as HTTP's media types.
const (
	Mime  = "application/vnd.graphbinary-v1.0"
	Mime4 = "application/vnd.graphbinary-v4.0"
)

// Flags after a type's code. Do not change them.
const (
	flagValue = 0x00
	flagNull  = 0x01
	// flagOther, in version 4.0, is that of a list whose items have bulks, and of a map
	// whose entries have an order.
	flagOther = 0x02
)

// Codes of types. Do not change them.
const (
	typeCustom           = 0x00
	typeInt              = 0x01
	typeLong             = 0x02
	typeString           = 0x03
	typeDate             = 0x04 // in version 4.0, what typeOffsetDateTime is in 1.0
	typeTimestamp        = 0x05
	typeClass            = 0x06
	typeDouble           = 0x07
	typeFloat            = 0x08
	typeList             = 0x09
	typeMap              = 0x0a
	typeSet              = 0x0b
	typeUUID             = 0x0c
	typeEdge             = 0x0d
	typePath             = 0x0e
	typeProperty         = 0x0f
	typeGraph            = 0x10
	typeVertex           = 0x11
	typeVertexProperty   = 0x12
	typeBarrier          = 0x13
	typeBinding          = 0x14
	typeBytecode         = 0x15
	typeCardinality      = 0x16
	typeColumn           = 0x17
	typeDirection        = 0x18
	typeOperator         = 0x19
	typeOrder            = 0x1a
	typePick             = 0x1b
	typePop              = 0x1c
	typeLambda           = 0x1d
	typeP                = 0x1e
	typeScope            = 0x1f
	typeT                = 0x20
	typeTraverser        = 0x21
	typeBigDecimal       = 0x22
	typeBigInteger       = 0x23
	typeByte             = 0x24
	typeByteBuffer       = 0x25
	typeShort            = 0x26
	typeBoolean          = 0x27
	typeTextP            = 0x28
	typeStrategy         = 0x29
	typeBulkSet          = 0x2a
	typeTree             = 0x2b
	typeMetrics          = 0x2c
	typeTraversalMetrics = 0x2d
	typeMerge            = 0x2e
	typeDT               = 0x2f
	typeGType            = 0x30
	typeChar             = 0x80
	typeDuration         = 0x81
	typeInstant          = 0x83
	typeOffsetDateTime   = 0x88
	typeZonedDateTime    = 0x8d
	typeCompositePDT     = 0xf0
	typePrimitivePDT     = 0xf1
	typeMarker           = 0xfd
	typeNull             = 0xfe
)

// kindOf returns the enumeration whose constants have the type; "" if none.
func kindOf(code byte) string {
	switch code {
	case typeBarrier:
		return value.KindBarrier
	case typeCardinality:
		return value.KindCardinality
	case typeColumn:
		return value.KindColumn
	case typeDirection:
		return value.KindDirection
	case typeOperator:
		return value.KindOperator
	case typeOrder:
		return value.KindOrder
	case typePick:
		return value.KindPick
	case typePop:
		return value.KindPop
	case typeScope:
		return value.KindScope
	case typeT:
		return value.KindT
	case typeMerge:
		return value.KindMerge
	case typeDT:
		return value.KindDT
	case typeGType:
		return value.KindGType
	}
	return ""
}

// codeOf is the reverse of kindOf; typeNull if there is none.
func codeOf(kind string) byte {
	for code := byte(typeBarrier); code <= typeGType; code++ {
		if kindOf(code) == kind {
			return code
		}
	}
	return typeNull
}
