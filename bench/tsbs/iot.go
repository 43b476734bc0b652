package tsbs

import (
	"fmt"
	"math/rand/v2"
)

// newTruck returns the five tags of a truck, and its capacities of load and fuel and its nominal
// consumption of fuel, which depend on the model. TSBS writes them as fields, since they are numbers.
func newTruck(truck int, r *rand.Rand) (tags string, constants []float64) {
	models := []struct {
		name      string
		constants []float64
	}{
		{"F-150", []float64{2000, 200, 15}},
		{"G-2000", []float64{5000, 300, 19}},
		{"H-2", []float64{1500, 150, 12}},
	}
	model := models[r.IntN(len(models))]
	return fmt.Sprintf(",name=truck_%d,fleet=%s,driver=%s,model=%s,device_version=%s", truck,
		pick(r, "East", "West", "North", "South"), pick(r, "Derek", "Rodney", "Albert", "Andy", "Seth", "Trish"),
		model.name, pick(r, "v1.0", "v1.5", "v2.0", "v2.3")), model.constants
}

// iot returns the measurements of a truck.
func iot() []*measurement {
	capacities := func() []field {
		return []field{{"load_capacity", exact}, {"fuel_capacity", exact}, {"nominal_fuel_consumption", exact}}
	}
	fuel := walk{uniform: true, a: -0.001, b: 0, high: 1, first: 1, refill: true}
	load := walk{again: 0.05, high: 5000}
	return []*measurement{
		(&measurement{name: "readings", fields: capacities()}).
			add("latitude", 5, within(0.005, -90, 90, 0, 90)).
			add("longitude", 5, within(0.005, -180, 180, 0, 180)).
			add("elevation", 0, within(10, 0, 5000, 0, 500)).
			add("velocity", 0, within(10, 0, 100, 0, 0)).
			add("heading", 0, within(5, 0, 360, 0, 360)).
			add("grade", 0, within(5, 0, 100, 0, 0)).
			add("fuel_consumption", 1, within(5, 0, 50, 25, 0)),
		(&measurement{name: "diagnostics", fields: capacities()}).
			add("fuel_state", 1, fuel).
			add("current_load", 0, load).
			add("status", integer, clamped(0, 1, 0, 5, 0)),
	}
}
