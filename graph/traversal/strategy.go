package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// subgraph is SubgraphStrategy: what can be seen. A nil plan accepts everything.
type subgraph struct {
	vertices, edges, properties *plan
	adjacent                    bool // an edge is seen only with both its vertices
}

// partition is PartitionStrategy: the partition that new elements get, and those
// that can be seen.
type partition struct {
	key   string
	write any
	read  *predicate
	metas bool // properties of vertices have partitions too
}

// hides reports whether some elements cannot be seen.
func (r *run) hides() bool {
	return (r.source.subgraph != nil || r.source.partition != nil) && !r.judging
}

// sees reports whether an element can be seen.
func (r *run) sees(e value.Stored) (bool, error) {
	if !r.hides() {
		return true, nil
	}
	r.judging = true // what decides it sees everything
	defer func() { r.judging = false }()
	if p := r.source.partition; p != nil {
		if ok, err := r.inPartition(p, e); !ok || err != nil {
			return false, err
		}
	}
	if s := r.source.subgraph; s != nil {
		return r.inSubgraph(s, e)
	}
	return true, nil
}

func (r *run) inPartition(p *partition, e value.Stored) (bool, error) {
	if prop, ok := e.(*graph.VertexProperty); ok && (!p.metas || prop.Key == p.key) {
		return true, nil
	}
	return r.passes(traverser{val: e, bulk: 1}, &hasTest{key: p.key, pred: p.read})
}

func (r *run) inSubgraph(s *subgraph, e value.Stored) (bool, error) {
	test := func(p *plan, e value.Stored) (bool, error) {
		if p == nil {
			return true, nil
		}
		return r.test(p, traverser{val: e, bulk: 1})
	}
	switch x := e.(type) {
	case *graph.Edge:
		if s.adjacent && s.vertices != nil {
			for _, v := range []*graph.Vertex{x.Out(), x.In()} {
				if ok, err := test(s.vertices, v); !ok || err != nil {
					return false, err
				}
			}
		}
		return test(s.edges, e)
	case *graph.VertexProperty:
		return test(s.properties, e)
	}
	return test(s.vertices, e)
}

// strategy reads an argument of withStrategies.
func (b *builder) strategy(arg any) error {
	var s gremlin.Strategy
	switch x := arg.(type) {
	case gremlin.Strategy:
		s = x
	case gremlin.Class:
		s.Name = string(x)
	default:
		return fmt.Errorf("it needs strategies, not %s", describe(arg))
	}
	if s.Config == nil {
		s.Config = &value.Map{}
	}
	switch s.Name {
	case "SubgraphStrategy":
		return b.subgraph(s.Config)
	case "PartitionStrategy":
		return b.partition(s.Config)
	case "ReadOnlyStrategy":
		b.config.readOnly = true
	case "SeedStrategy":
		v, _ := s.Config.Get("seed")
		n, ok := value.Int(v)
		if !ok {
			return fmt.Errorf("SeedStrategy needs a seed, a whole number")
		}
		b.config.seed = &n
	case "ProductiveByStrategy":
		b.config.productive = true
	case "OptionsStrategy": // of the request
	case "ReservedKeysVerificationStrategy", "EdgeLabelVerificationStrategy":
		return b.verification(s)
	case "ElementIdStrategy":
		return b.elementID(s.Config)
	case "VertexProgramStrategy":
		b.computer = true
	case "VertexProgramRestrictionStrategy":
		b.noComputer = true
	case "GraphFilterStrategy", "MessagePassingReductionStrategy", "ComputerVerificationStrategy":
		return nil // there is one way in which traversals run
	default:
		if !slices.Contains(harmless(), s.Name) {
			return fmt.Errorf("there is no strategy %s", s.Name)
		}
	}
	return nil
}

// harmless returns the strategies of TinkerPop that change how a traversal is
// carried out there, but not what it yields.
func harmless() []string {
	return []string{
		"AdjacentToIncidentStrategy", "ByModulatorOptimizationStrategy", "ComputerFinalizationStrategy", "ConnectiveStrategy", "CountStrategy",
		"EarlyLimitStrategy", "FilterRankingStrategy", "HaltedTraverserStrategy", "IdentityRemovalStrategy", "IncidentToAdjacentStrategy",
		"InlineFilterStrategy", "LambdaRestrictionStrategy", "LazyBarrierStrategy", "MatchAlgorithmStrategy", "MatchPredicateStrategy",
		"OrderLimitStrategy", "PathProcessorStrategy", "PathRetractionStrategy", "ProfileStrategy", "ReferenceElementStrategy",
		"RepeatUnrollStrategy", "RequirementsStrategy", "SackStrategy", "SideEffectStrategy", "StandardVerificationStrategy",
		"TinkerGraphCountStrategy", "TinkerGraphStepStrategy", "DetachStrategy", "UnrollStrategy", "ElementRankingStrategy",
	}
}

func (b *builder) subgraph(config *value.Map) error {
	s := &subgraph{adjacent: true}
	for _, e := range config.Entries() {
		key, _ := e.Key.(string)
		if key == "checkAdjacentVertices" {
			s.adjacent = e.Val == true
			continue
		}
		at := map[string]**plan{"vertices": &s.vertices, "edges": &s.edges, "vertexProperties": &s.properties}[key]
		if at == nil {
			return fmt.Errorf("SubgraphStrategy has no option %s", value.Text(e.Key))
		}
		p, err := b.child(e.Val)
		if err != nil {
			return err
		}
		*at = p
	}
	b.config.subgraph = s
	return nil
}

func (b *builder) partition(config *value.Map) (err error) {
	p := &partition{}
	read := []any{}
	for _, e := range config.Entries() {
		switch e.Key {
		case "partitionKey":
			p.key, _ = e.Val.(string)
		case "writePartition":
			p.write = e.Val
		case "readPartitions":
			read = flat([]any{e.Val})
		case "includeMetaProperties":
			p.metas = e.Val == true
		default:
			return fmt.Errorf("PartitionStrategy has no option %s", value.Text(e.Key))
		}
	}
	if p.key == "" {
		return fmt.Errorf("PartitionStrategy needs a partitionKey")
	}
	p.read, err = newPredicate(&gremlin.P{Name: "within", Args: read})
	b.config.partition = p
	return err
}

// verification reads the strategies that refuse some traversals.
func (b *builder) verification(s gremlin.Strategy) error {
	throws := false
	keys := []any{"id", "label"}
	for _, e := range s.Config.Entries() {
		switch e.Key {
		case "throwException":
			throws = e.Val == true
		case "keys", "reservedKeys":
			keys = flat([]any{e.Val})
		case "logWarning":
		default:
			return fmt.Errorf("%s has no option %s", s.Name, value.Text(e.Key))
		}
	}
	if !throws {
		return nil
	}
	if s.Name == "EdgeLabelVerificationStrategy" {
		b.labelledEdges = true
		return nil
	}
	b.reserved = keys
	return nil
}

// checkEdges refuses steps along edges without labels, if a strategy says so.
func (b *builder) checkEdges(step string, labels []string) error {
	if b.labelledEdges && len(labels) == 0 {
		return known("The provided traversal contains a vertex step without any specified edge label: %s()", step)
	}
	return nil
}

// checkKey refuses keys of properties that are reserved.
func (b *builder) checkKey(key any) error {
	if slices.ContainsFunc(b.reserved, func(k any) bool { return value.Equal(k, key) }) {
		return known("The provided traversal contains a step that is setting a property key to a reserved word: %s", value.Text(key))
	}
	return nil
}

// elementID reads ElementIdStrategy, by which elements are known by a property.
func (b *builder) elementID(config *value.Map) error {
	key := "__id"
	for _, e := range config.Entries() {
		if e.Key != "idPropertyKey" {
			return fmt.Errorf("ElementIdStrategy has no option %s", value.Text(e.Key))
		}
		key, _ = e.Val.(string)
	}
	b.config.idKey = key
	return nil
}
