package iot

import (
	"time"

	"github.com/skerrydb/skerry/series"
)

// Factory is the collection of all sensors' values.
var Factory = series.Collection{Name: "factory", Retention: 30 * 24 * time.Hour}

// Metric is the name of the series. Their labels are sensor, kind and line.
const Metric = "sensor_value"

// Kind is what a sensor measures.
type Kind struct {
	Name  string  // the label kind
	Title string  // for people
	Unit  string  // likewise
	Usual float64 // what most values are near
	Alarm float64 // a higher value is an alarm
	About string  // what a value above Alarm means
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		{"temperature", "Temperature", "°C", 31.5, 34, "the chocolate loses its temper"},
		{"humidity", "Humidity", "%", 45, 60, "sugar bloom forms"},
		{"pressure", "Pressure", "bar", 2, 3, "a pipe is clogged"},
		{"vibration", "Vibration", "mm/s", 2.8, 7.1, "a bearing wears out"},
	}
}
