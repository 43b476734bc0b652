// Package todo keeps what people have to do: a list for each of them, in a web
// application of pages that work without scripts and are live with them. It is also
// the template todo of `skerry init`.
//
// It knows the rules of a list, as procedures over plain keys, and the pages that
// show it; it must not know how passwords and sessions are kept, which is Skerry's.
package todo
