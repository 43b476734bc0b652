package graphbinary

// version is a version of the format: the byte with which messages begin. Do not
// change them.
type version byte

const (
	version1 version = 0x81
	version4 version = 0x84
)

// has reports whether the version has a type. Version 4.0 has none for what only
// traversals have, as requests are text.
func (v version) has(code byte) bool {
	if v == version1 {
		return code < typeCompositePDT
	}
	switch code {
	case typeInt, typeLong, typeString, typeDate, typeDouble, typeFloat, typeList, typeMap, typeSet, typeUUID, typeEdge, typePath,
		typeProperty, typeGraph, typeVertex, typeVertexProperty, typeDirection, typeT, typeBigDecimal, typeBigInteger, typeByte,
		typeByteBuffer, typeShort, typeBoolean, typeTree, typeMerge, typeChar, typeDuration:
		return true
	}
	return false
}

// read returns the type of version 1.0 that is read as a type and a flag of this one.
func (v version) read(code, flag byte) byte {
	switch {
	case v == version1:
	case code == typeDate:
		return typeOffsetDateTime
	case code == typeList && flag == flagOther:
		return typeBulkSet
	}
	return code
}

// flags reports whether values of the type may have flagOther.
func (v version) flags(code byte) bool {
	return v == version4 && (code == typeList || code == typeMap)
}

// dateTime returns the type of times.
func (v version) dateTime() byte {
	if v == version1 {
		return typeOffsetDateTime
	}
	return typeDate
}

// labelLists reports whether an element has a list of labels, and not one.
func (v version) labelLists() bool { return v == version4 }

// bareLists reports whether the properties in a graph are lists without a type.
func (v version) bareLists() bool { return v == version4 }

// programs reports whether traversals and their arguments can be written.
func (v version) programs() bool { return v == version1 }

// bulks begins a BulkSet: in version 4.0 it is a list.
func (w *writer) bulks() {
	if w.ver == version4 {
		w.b = append(w.b, typeList, flagOther)
		return
	}
	w.head(typeBulkSet)
}
