package graphs_test

// What the random traversals are made of. A unit takes a stream of one kind to one of another:
//
//	G  the source          N  numbers                 A  lists of numbers
//	V  vertices            S  strings                 C  lists of strings
//	E  edges               B  booleans                U  lists in no defined order
//	P  properties          X  values of any type      M  maps
//	Z  anything
//
// Its text has holes: <V:N> is a traversal of its own from vertices to numbers, <V.N> the same inline, <V=N> one that
// has at most one result; the rest are random literals (generator.literal). What TinkerPop leaves undefined is not
// written here: a range without a total order before it, the first of several results, a sum that depends on the order
// of its terms.
type unit struct {
	in, out byte   // in '*': any kind; out '=': the same as in
	text    string // begins with the dot
	flags   mark
}

type mark uint8

const (
	top      mark = 1 << iota // may fail, or depends on laziness: not inside of others
	untied                    // needs graphs in which no two numbers of different types are equal
	orders                    // leaves the stream in a total order
	explodes                  // makes several of one
	reduces                   // has a result without input
)

var sources = []unit{
	{'G', 'V', "V()", 0}, {'G', 'V', "V()", 0}, {'G', 'V', "V()", 0}, {'G', 'V', "V(<vids>)", 0},
	{'G', 'V', "V(<vid>)", 0}, {'G', 'V', "V().hasLabel(<vl>)", 0}, {'G', 'V', "V().has(<vl>,'n',<pn>)", 0},
	{'G', 'V', "V().has('s',<ps>)", 0}, {'G', 'V', "V().has('n',<n>)", 0}, {'G', 'V', "V().hasId(<vid>)", 0},
	{'G', 'E', "E()", 0}, {'G', 'E', "E(<eid>)", 0}, {'G', 'E', "E().hasLabel(<el>)", 0}, {'G', 'E', "E().has('w',<pn>)", 0},
	{'G', 'N', "inject(<n>,<n>,<n>)", 0}, {'G', 'S', "inject(<s>,<s>)", 0}, {'G', 'X', "inject(<x>,<x>,<x>)", 0},
	{'G', 'A', "inject([<n>,<n>,<n>],[<n>])", 0}, {'G', 'C', "inject([<s>,<s>],[<s>,<s>,<s>])", 0},
	{'G', 'M', "inject(['a':<n>,'b':<s>])", 0}, {'G', 'V', "union(V(<vid>),V().hasLabel(<vl>))", 0},
	{'G', 'N', "withSack(<n>).V()<V.V>.sack(Operator.sum).by(<V=N>)<V.V>.sack()", 0},
	{'G', 'N', "withSack(1).V()<V.E>.sack(Operator.mult).by('w').inV()<V.V>.sack()", 0},
	{'G', 'Z', "withSideEffect('x',<n>).V()<V.N>.where(P.gt('x'))", top},
}

var moves = []unit{
	{'V', 'V', ".out(<els>)", explodes}, {'V', 'V', ".in(<els>)", explodes}, {'V', 'V', ".both(<els>)", explodes},
	{'V', 'E', ".outE(<els>)", explodes}, {'V', 'E', ".inE(<els>)", explodes}, {'V', 'E', ".bothE(<els>)", explodes},
	{'E', 'V', ".outV()", 0}, {'E', 'V', ".inV()", 0}, {'E', 'V', ".bothV()", explodes}, {'E', 'V', ".otherV()", top},
	{'V', 'E', "<V.V>.outE().as('<a>').inV().select('<a>')", explodes}, {'V', 'V', ".outE(<els>).otherV()", explodes},
	{'V', 'N', ".values('n')", 0}, {'V', 'N', ".values('n')", 0}, {'V', 'S', ".values('s')", 0}, {'V', 'S', ".values('s','t')", explodes},
	{'V', 'N', ".values('c')", explodes}, {'V', 'X', ".values('x')", 0}, {'V', 'X', ".values()", explodes}, {'V', 'X', ".values('n','s')", explodes},
	{'E', 'N', ".values('w')", 0}, {'E', 'N', ".values('w')", 0}, {'E', 'S', ".values('s')", 0}, {'E', 'X', ".values()", explodes},
	{'V', 'P', ".properties(<keys>)", explodes}, {'E', 'P', ".properties(<keys>)", explodes}, {'P', 'S', ".key()", 0}, {'P', 'X', ".value()", 0},
	{'P', 'V', ".element().hasLabel(<vl>)", top}, {'V', 'X', ".properties('s').values('m')", 0}, {'V', 'M', ".properties('s').valueMap()", 0},
	{'V', 'M', ".valueMap(<keys>)", 0}, {'E', 'M', ".valueMap(<keys>)", 0}, {'V', 'M', ".elementMap(<keys>)", 0}, {'E', 'M', ".elementMap(<keys>)", 0},
	{'V', 'M', ".valueMap(true)", top}, {'V', 'Z', ".propertyMap('n','s')", 0}, {'V', 'M', ".valueMap('s','n').by(unfold())", 0},
	{'V', 'S', ".label()", 0}, {'E', 'S', ".label()", 0}, {'V', 'S', ".id()", 0}, {'E', 'S', ".id()", 0}, {'P', 'S', ".label()", 0},
	{'V', 'M', ".project('a','b').by(<V=N>).by(<V=S>)", 0}, {'E', 'M', ".project('a','b').by(<E=N>).by(<E=S>)", 0},
	{'V', 'M', ".project('a','b').by(T.label).by('s')", 0}, {'V', 'Z', ".project('a').by(<V:*>.fold())", 0},
	{'V', 'N', ".constant(<n>)", 0}, {'V', 'S', ".constant(<s>)", 0}, {'E', 'N', ".constant(<n>)", 0}, {'X', 'N', ".constant(<n>)", 0},
	{'N', 'V', ".V(<vid>)", 0}, {'S', 'V', ".V().has('s',<ps>)", explodes}, {'V', 'V', ".V(<vid>,<vid>)", explodes}, {'E', 'V', ".toV(Direction.<dir>)", 0},
	{'V', 'V', ".to(Direction.<dir>,<el>)", explodes}, {'V', 'E', ".toE(Direction.<dir>,<el>)", explodes},
}

var filters = []unit{
	{'V', '=', ".has('n',<pn>)", 0}, {'V', '=', ".has('s',<ps>)", 0}, {'V', '=', ".has('n',<n>)", 0}, {'V', '=', ".has('x',<px>)", 0},
	{'V', '=', ".has('c',<pn>)", 0}, {'V', '=', ".has(<key>)", 0}, {'V', '=', ".hasNot(<key>)", 0}, {'V', '=', ".hasLabel(<vl>,<vl>)", 0},
	{'V', '=', ".hasId(<vid>)", 0}, {'V', '=', ".has(T.label,P.neq(<vl>))", 0}, {'V', '=', ".has(T.id,P.within(<vids>))", 0},
	{'V', '=', ".has(<vl>,'s',<ps>)", 0}, {'V', '=', ".hasLabel(P.within(<vl>,<vl>))", 0},
	{'E', '=', ".has('w',<pn>)", 0}, {'E', '=', ".has('s',<ps>)", 0}, {'E', '=', ".hasLabel(<el>)", 0}, {'E', '=', ".has(<key>)", 0}, {'E', '=', ".hasId(<eid>)", 0},
	{'P', '=', ".hasKey(<key>)", 0}, {'P', '=', ".hasValue(<px>)", 0}, {'P', '=', ".hasValue(<ps>)", 0},
	{'N', '=', ".is(<pn>)", 0}, {'N', '=', ".is(<n>)", 0}, {'S', '=', ".is(<ps>)", 0}, {'X', '=', ".is(<px>)", 0}, {'X', '=', ".is(<x>)", 0}, {'X', '=', ".is(P.typeOf(GType.<type>))", 0},
	{'V', '=', ".where(__.out(<els>))", 0}, {'V', '=', ".not(<V:*>)", 0}, {'V', '=', ".filter(<V:*>)", 0}, {'V', '=', ".and(<V:*>,<V:*>)", 0}, {'V', '=', ".or(<V:*>,<V:*>)", 0},
	{'E', '=', ".filter(<E:*>)", 0}, {'E', '=', ".not(<E:*>)", 0}, {'E', '=', ".or(<E:*>,<E:*>)", 0}, {'N', '=', ".not(<N:N>)", 0}, {'N', '=', ".or(<N:*>,<N:N>)", 0},
	{'V', '=', ".filter(<V=N>.is(<pn>))", 0}, {'V', '=', ".filter(<V=S>.is(<ps>))", 0}, {'E', '=', ".filter(<E=N>.is(<pn>))", 0},
	{'V', '=', ".as('<a>')<V.V>.where(P.neq('<a>'))", 0}, {'V', '=', ".as('<a>')<V.V>.where(P.eq('<a>'))", 0}, {'V', '=', ".as('<a>')<V.V>.where(P.lt('<a>')).by(<V=N>)", top},
	{'V', '=', ".as('<a>')<V.V>.as('<b>').where('<a>',P.neq('<b>'))", 0}, {'V', '=', ".as('<a>').where(__.out().as('<a>'))", 0},
	{'V', '=', ".as('<a>')<V.V>.as('<b>').where('<a>',P.gte('<b>')).by('s').by('t')", top},
	{'V', '=', ".aggregate('<a>')<V.V>.where(P.without('<a>'))", top}, {'V', '=', ".aggregate('<a>')<V.V>.where(P.within('<a>'))", top},
	{'*', '=', ".dedup()", 0}, {'*', '=', ".identity()", 0}, {'*', '=', ".barrier()", 0}, {'*', '=', ".simplePath()", 0}, {'*', '=', ".cyclicPath()", 0},
	{'V', '=', ".dedup().by(T.id)", 0},
	{'V', '=', ".order().by(<V=X>,<dir2>).by(T.id).range(<i>,<k>)", 0}, {'V', '=', ".order().by(T.id).limit(<j>)", 0}, {'V', '=', ".order().by(T.id).skip(<j>)", 0},
	{'V', '=', ".order().by(T.id,Order.desc).tail(<j>)", 0}, {'E', '=', ".order().by('w').by(T.id).limit(<j>)", 0}, {'E', '=', ".order().by(T.id).tail(<j>)", 0},
	{'S', '=', ".order().limit(<j>)", 0}, {'S', '=', ".order().by(Order.desc).range(<i>,<k>)", 0}, {'N', '=', ".order().limit(<j>).math('_ + 0')", 0},
	{'V', '=', ".sideEffect(<V:*>)", 0}, {'V', '=', ".none(P.eq(<n>))", top}, {'V', '=', ".fold().unfold()", reduces}, {'N', '=', ".fold().unfold()", reduces},
	{'V', '=', ".as('<a>').out().in().dedup('<a>').select('<a>')", explodes}, {'V', '=', ".order().by(T.id).local(__.order().by(T.id).limit(1))", 0},
	{'V', '=', ".discard()", 0},
}

var branches = []unit{
	{'V', 'V', ".union(<V:V>,<V:V>)", explodes}, {'V', 'X', ".union(<V:N>,<V:S>)", explodes}, {'V', 'N', ".union(<V:N>,<V=N>)", explodes}, {'E', 'V', ".union(<E:V>,<E:V>)", explodes},
	{'V', 'V', ".coalesce(<V:V>,<V:V>)", 0}, {'V', 'X', ".coalesce(<V:N>,<V:S>)", 0}, {'E', 'V', ".coalesce(<E:V>,<E:V>)", 0}, {'V', 'S', ".coalesce(<V:S>,__.constant('none'))", 0},
	{'V', 'V', ".optional(<V:V>)", 0}, {'E', 'E', ".optional(<E:E>)", 0}, {'V', 'V', ".choose(<V:*>,<V:V>,<V:V>)", 0}, {'V', 'V', ".choose(<V:*>,<V:V>)", 0},
	{'V', 'X', ".choose(__.label()).option(<vl>,<V:N>).option(<vl>,<V:S>).option(Pick.none,<V:N>)", 0}, {'N', 'N', ".choose(__.is(<pn>),<N:N>,<N:N>)", 0},
	{'V', 'X', ".choose(<V=N>).option(<pn>,<V:S>).option(Pick.none,<V:N>)", top}, {'V', 'X', ".choose(T.label).option(<vl>,<V:N>)", top},
	{'V', 'V', ".flatMap(<V:V>)", explodes}, {'V', 'N', ".flatMap(<V:N>)", explodes}, {'V', 'N', ".map(<V=N>)", 0}, {'V', 'S', ".map(<V=S>)", 0}, {'E', 'N', ".map(<E=N>)", 0},
	{'V', 'V', ".local(<V.V>)", top}, {'V', 'V', ".dedup().local(__.out().order().by(T.id).limit(<j>))", 0},
	{'V', 'V', ".repeat(<V:V>).times(<j>).identity()", explodes}, {'V', 'V', ".repeat(__.out(<els>)).times(<j>).identity()", explodes}, {'V', 'V', ".repeat(__.out(<els>)).emit().times(<j>).identity()", explodes},
	{'V', 'V', ".identity().emit().repeat(__.in(<els>)).times(<j>).identity()", explodes}, {'V', 'V', ".identity().emit(<V:*>).repeat(__.both(<els>).dedup()).times(<j>).identity()", explodes}, {'V', 'V', ".identity().times(2).repeat(__.out()).identity()", explodes},
	{'V', 'V', ".repeat(__.out().simplePath()).until(<V:*>).emit(<V:*>).identity()", explodes}, {'V', 'V', ".repeat(__.out()).until(__.or(__.loops().is(<j>),<V:*>)).identity()", explodes},
	{'V', 'V', ".identity().until(__.or(__.loops().is(2),<V:*>)).repeat(__.both()).identity()", explodes}, {'V', 'V', ".repeat(__.both().simplePath()).until(__.has('n',<pn>)).identity()", explodes},
	{'N', 'N', ".repeat(__.math('_ * 2')).times(<j>).identity()", 0}, {'N', 'N', ".identity().emit().repeat(__.math('_ + 1')).until(__.loops().is(2)).identity()", 0}, {'V', 'V', ".repeat(__.order().by(T.id).limit(3).out()).times(2).identity()", top | explodes},
	{'V', 'Z', ".as('<a>')<V.V>.as('<b>').select('<a>','<b>')", 0}, {'V', 'M', ".as('<a>')<V.V>.as('<b>').select('<a>','<b>').by(<V=N>).by(<V=S>)", 0}, {'V', 'V', ".as('<a>')<V.V>.select('<a>')", 0},
	{'V', 'X', ".as('<a>')<V.E>.select('<a>').by(<V=X>)", 0}, {'V', 'V', ".as('<a>').out().as('<a>').select(Pop.first,'<a>')", explodes}, {'V', 'U', ".as('<a>').out().as('<a>').select(Pop.all,'<a>')", explodes},
	{'*', 'Z', ".path()", 0}, {'V', 'Z', ".out().path().by(<V=X>)", explodes}, {'V', 'Z', ".out().out().path().by('s').by(T.id)", explodes}, {'V', 'Z', ".outE().inV().path().by('s').by('w')", explodes},
	{'V', 'Z', ".as('<a>').out().as('<b>').out().path().from('<a>').to('<b>')", explodes}, {'V', 'Z', ".match(__.as('a').out(<els>).as('b'),__.as('b').<io>(<els>).as('c')).select('a','c')", top | explodes},
	{'V', 'Z', ".match(__.as('a').out().as('b'),__.not(__.as('b').out().as('a'))).select('a','b').by(T.id)", top | explodes}, {'V', 'Z', ".tree().by(T.id).count(Scope.local)", top},
	{'V', 'N', ".count().barrier()", reduces}, {'E', 'N', ".count().barrier()", reduces}, {'Z', 'N', ".count().barrier()", reduces}, {'M', 'N', ".count().barrier()", reduces}, {'S', 'N', ".count().barrier()", reduces}, {'P', 'N', ".count().barrier()", reduces},
}

var values = []unit{
	{'N', 'N', ".sum()", reduces}, {'N', 'Z', ".mean()", reduces}, {'N', 'N', ".mean().math('floor(_ * 1000)')", reduces}, {'N', 'N', ".max().math('_ + 0')", reduces}, {'N', 'N', ".min().math('_ - 1')", reduces}, {'V', 'N', ".values('n').max()", untied | reduces}, {'V', 'N', ".values('n').min()", untied | reduces},
	{'S', 'S', ".max()", reduces}, {'S', 'S', ".min()", reduces}, {'N', 'N', ".math('<math>')", 0}, {'V', 'X', ".values('n').asString()", 0}, {'X', 'S', ".asString()", top}, {'N', 'N', ".asNumber(GType.<ntype>)", top}, {'S', 'N', ".asNumber()", top},
	{'N', 'B', ".asBool()", top}, {'S', 'B', ".asBool()", top}, {'V', 'N', ".as('<a>')<V.V>.as('<b>').math('<a> + <b> * 2').by(<V=N>).by(<V=N>)", top}, {'X', 'N', ".sum()", top | reduces}, {'X', 'X', ".max()", top | reduces}, {'X', 'X', ".order()", top | untied},
	{'S', 'S', ".toUpper()", 0}, {'S', 'S', ".toLower()", 0}, {'S', 'S', ".trim()", 0}, {'S', 'S', ".lTrim()", 0}, {'S', 'S', ".rTrim()", 0}, {'S', 'S', ".reverse()", 0}, {'S', 'N', ".length()", 0}, {'S', 'S', ".concat(<s>,<s>)", 0},
	{'S', 'S', ".replace(<s>,<s>)", 0}, {'S', 'S', ".substring(<i>)", 0}, {'S', 'S', ".substring(<z>,<z>)", 0}, {'S', 'C', ".split(<s>)", 0}, {'V', 'S', ".format('%{s}-%{n}')", 0}, {'V', 'S', ".map(<V=S>).concat(__.constant('!'))", 0},
	{'N', 'U', ".fold()", reduces}, {'S', 'U', ".fold()", reduces}, {'X', 'U', ".fold()", reduces}, {'V', 'U', ".fold()", reduces}, {'E', 'U', ".fold()", reduces}, {'M', 'U', ".fold()", reduces}, {'S', 'C', ".order().fold()", reduces}, {'V', 'C', ".order().by(T.id).values('s').fold()", reduces},
	{'V', 'A', ".order().by(T.id).values('n').fold()", reduces}, {'U', 'X', ".unfold()", 0}, {'A', 'N', ".unfold()", 0}, {'C', 'S', ".unfold()", 0}, {'Z', 'Z', ".unfold()", 0}, {'M', 'Z', ".unfold()", 0},
	{'U', 'N', ".count(Scope.local)", 0}, {'A', 'N', ".sum(Scope.local)", 0}, {'A', 'Z', ".mean(Scope.local)", 0}, {'A', 'N', ".max(Scope.local)", 0}, {'A', 'N', ".min(Scope.local)", 0}, {'A', 'N', ".count(Scope.local)", 0},
	{'A', 'A', ".limit(Scope.local,2)", top}, {'A', 'A', ".order(Scope.local)", 0}, {'A', 'A', ".order(Scope.local).by(Order.desc)", 0}, {'C', 'C', ".order(Scope.local).by(<dir2>)", 0}, {'A', 'U', ".dedup(Scope.local)", 0},
	{'C', 'X', ".tail(Scope.local,<j>)", 0}, {'C', 'X', ".range(Scope.local,<i>,<k>)", 0}, {'A', 'X', ".skip(Scope.local,1)", 0}, {'A', 'U', ".intersect([<n>,<n>])", 0}, {'A', 'U', ".difference([<n>,<n>])", 0}, {'C', 'U', ".disjunct([<s>,<s>])", 0},
	{'A', 'A', ".combine([<n>])", 0}, {'A', 'U', ".merge([<n>,<n>])", 0}, {'C', 'U', ".merge([<s>])", 0}, {'A', 'Z', ".product([<n>,<s>])", 0}, {'C', 'S', ".conjoin('-')", 0}, {'C', 'C', ".reverse()", 0}, {'A', 'A', ".reverse()", 0}, {'C', 'C', ".toUpper(Scope.local)", 0},
	{'C', 'C', ".concat(<s>)", top}, {'A', 'A', ".any(<pn>)", 0}, {'A', 'A', ".all(<pn>)", 0}, {'C', 'C', ".any(<ps>)", 0}, {'C', 'C', ".none(<ps>)", 0}, {'A', 'C', ".asString(Scope.local)", 0}, {'C', 'A', ".length(Scope.local)", 0}, {'A', 'A', ".asNumber(GType.DOUBLE)", top},
	{'V', 'M', ".group().by(T.label).by(<V=X>.fold())", top | reduces}, {'V', 'M', ".group().by(T.label).by(__.count())", reduces}, {'V', 'Z', ".group().by(<V=X>).by(<V:*>.count())", reduces}, {'V', 'Z', ".group().by(<V=X>)", reduces}, {'V', 'Z', ".group().by('n').by('s')", reduces}, {'V', 'M', ".groupCount().by(T.label)", reduces},
	{'V', 'Z', ".groupCount().by(<V=X>)", reduces}, {'V', 'Z', ".groupCount()", reduces}, {'E', 'Z', ".group().by(T.label).by('w')", reduces}, {'E', 'Z', ".group().by(T.label).by(__.values('w').sum())", reduces}, {'X', 'Z', ".groupCount()", reduces}, {'S', 'M', ".groupCount()", reduces},
	{'V', 'Z', ".group('<a>').by(T.label)<V.V>.cap('<a>')", top | reduces}, {'V', 'M', ".groupCount('<a>').by(T.label)<V.V>.cap('<a>')", top | reduces}, {'V', 'U', ".aggregate('<a>').by(<V=X>)<V.V>.cap('<a>')", top | reduces}, {'N', 'U', ".aggregate('<a>').cap('<a>')", top | reduces}, {'V', 'U', ".local(aggregate('<a>'))<V.V>.cap('<a>')", top | reduces},
	{'M', 'Z', ".select('a')", 0}, {'M', 'Z', ".select('a','b')", 0}, {'M', 'Z', ".select(Column.keys)", 0}, {'M', 'Z', ".select(Column.values)", 0}, {'M', 'N', ".count(Scope.local)", 0}, {'M', 'Z', ".order(Scope.local).by(Column.keys)", 0}, {'N', 'N', ".sack(Operator.assign).sack()", top},
	{'V', 'V', ".order().by(T.id)", orders}, {'V', 'V', ".order().by('s',<dir2>).by(T.id)", orders}, {'V', 'V', ".order().by(<V=X>,<dir2>).by(<V=N>).by(T.id,Order.desc)", orders}, {'E', 'E', ".order().by(T.label).by('w',<dir2>).by(T.id)", orders},
	{'S', 'S', ".order()", orders}, {'S', 'S', ".order().by(Order.desc)", orders}, {'S', 'S', ".order().by(__.length()).by()", orders}, {'B', 'B', ".order()", orders}, {'Z', 'Z', ".dedup().count()", reduces}, {'N', 'Z', ".index()", top},
}

// singles have at most one result for each element.
var singles = map[string][]string{
	"VN": {"__.values('n')", "__.values('n')", "<V:*>.count()", "<V:N>.sum()", "__.constant(<n>)", "<V:N>.mean().math('floor(_ * 1000)')", "__.out().count()", "__.both().dedup().count()"},
	"VS": {"__.values('s')", "__.values('s')", "__.label()", "__.id()", "<V:S>.max()", "__.constant(<s>)", "__.values('t')"},
	"VX": {"__.values('n')", "__.values('s')", "__.label()", "<V:*>.count()", "__.values('x')", "__.constant(<x>)"},
	"EN": {"__.values('w')", "<E:*>.count()", "__.constant(<n>)", "<E:N>.sum()"},
	"ES": {"__.values('s')", "__.label()", "__.id()", "__.inV().label()", "__.outV().values('s')"},
}

// changes are mutations of what comes before them, which has been read in full.
var changes = []unit{
	{'G', 'V', "addV(<vl>).property(T.id,<new>).property('n',<n>).property('s',<s>)", 0}, {'G', 'V', "addV(<vl>).property(T.id,<new>).property('c',<n>).property('c',<n>)", 0},
	{'G', 'E', "V(<vid>).addE(<el>).to(__.V(<vid>)).property(T.id,<new>).property('w',<n>)", 0}, {'G', 'E', "addE(<el>).from(__.V(<vid>)).to(__.V(<vid>)).property(T.id,<new>)", 0},
	{'G', 'E', "V(<vid>).as('a').V(<vid>).addE(<el>).from('a').property(T.id,<new>)", 0},
	{'G', 'V', "mergeV([(T.id):<vid>]).option(Merge.onMatch,['n':<n>])", 0}, {'G', 'V', "mergeV([(T.id):<new>,(T.label):<vl>,'n':<n>])", 0},
	{'G', 'V', "mergeV([(T.label):<vl>,'s':<s>]).option(Merge.onCreate,[(T.id):<new>,'n':<n>]).option(Merge.onMatch,['t':<s>])", 0},
	{'G', 'E', "mergeE([(T.label):<el>,(Direction.OUT):<vid>,(Direction.IN):<vid>,(T.id):<new>])", 0},
	{'G', 'E', "mergeE([(T.label):<el>,(Direction.OUT):<vid>,(Direction.IN):<vid>]).option(Merge.onCreate,[(T.id):<new>,'w':<n>]).option(Merge.onMatch,['w':<n>])", 0},
	{'G', 'V', "V(<vid>).fold().coalesce(__.unfold(),__.addV(<vl>).property(T.id,<new>))", reduces}, {'G', 'V', "V(<new>).fold().coalesce(__.unfold(),__.addV(<vl>).property(T.id,<new>))", reduces},
	{'V', '=', ".property('n',<n>)", 0}, {'V', '=', ".property('s',<s>)", 0}, {'V', '=', ".property(Cardinality.single,'c',<n>)", 0}, {'V', '=', ".property(Cardinality.list,'c',<n>)", 0}, {'V', '=', ".property(Cardinality.set,'c',<n>)", untied},
	{'V', '=', ".property('s',<s>,'m',<n>)", 0}, {'V', '=', ".property(['s':<s>,'n':<n>])", 0}, {'V', '=', ".property('t',__.label())", 0}, {'V', '=', ".property('n',__.out().count())", 0}, {'V', '=', ".property('n',null)", 0}, {'V', '=', ".property('x',<x>)", 0},
	{'E', '=', ".property('w',<n>)", 0}, {'E', '=', ".property('s',<s>)", 0}, {'E', '=', ".property('s',__.label())", 0}, {'E', '=', ".property('w',null)", 0},
	{'V', 'Z', ".drop()", 0}, {'E', 'Z', ".drop()", 0}, {'V', 'Z', ".properties(<keys>).drop()", 0}, {'E', 'Z', ".properties('w').drop()", 0}, {'V', 'V', ".sideEffect(__.properties('s').drop())", 0}, {'V', 'Z', ".outE(<el>).drop()", 0},
	{'V', '=', ".sideEffect(__.outE().drop())", 0}, {'V', '=', ".property(Cardinality.set,'c',<n>,'m',<n>)", untied}, {'V', '=', ".properties('s').property('m',<n>).element()", 0},
}
