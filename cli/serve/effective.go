package serve

import (
	"net/url"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
)

// noted returns settings that record in o.effective what they are and where that comes from. Files with secrets are there
// as paths, and URLs without passwords.
func (o *Options) noted(settings []verb.Setting) []verb.Setting {
	o.effective = make([]skerry.Setting, len(settings))
	for i, s := range settings {
		o.effective[i] = skerry.Setting{Name: s.Name, From: verb.FromDefault, Help: s.Help}
		settings[i].Note = func(value, from string) { o.effective[i].Value, o.effective[i].From = shown(value), from }
	}
	return settings
}

// shown returns the value of a setting without passwords.
func shown(value string) string {
	if !strings.Contains(value, "://") {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return "xxxxx" // what it hides is unknown
	}
	return verb.Redacted(u)
}

// compute sets the value of a setting whose default is computed.
func (o *Options) compute(name, value string) {
	for i, s := range o.effective {
		if s.Name == name && s.Value == "" {
			o.effective[i].Value = value
		}
	}
}
