package redact_test

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/redact"
)

// TestVisible: text of other people cannot control a terminal, or read as something else.
func TestVisible(t *testing.T) {
	for name, c := range map[string]struct{ text, want, asName string }{
		"plain":                {"NodePool/general: ready…", "NodePool/general: ready…", "NodePool/general: ready…"},
		"lines":                {"a\n\tb", "a\n\tb", `a\n\tb`},
		"the terminal":         {"a\x1b[2Kb\rc\x00\u0085", `a\x1b[2Kb\rc\x00\u0085`, `a\x1b[2Kb\rc\x00\u0085`},
		"embedded direction":   {"\u202aa\u202eb\u202c", `\u202aa\u202eb\u202c`, `\u202aa\u202eb\u202c`},
		"isolated direction":   {"\u2066a\u2067b\u2068c\u2069", `\u2066a\u2067b\u2068c\u2069`, `\u2066a\u2067b\u2068c\u2069`},
		"marks of direction":   {"\u200ea\u200fb\u061c", `\u200ea\u200fb\u061c`, `\u200ea\u200fb\u061c`},
		"not drawn":            {"a\ufe01\U000e0100\u3164\u115f\uffa0\u034f\u2800b \u26a0\ufe0f", `a\ufe01\U000e0100\u3164\u115f\uffa0\u034f\u2800b ⚠` + "\ufe0f", `a\ufe01\U000e0100\u3164\u115f\uffa0\u034f\u2800b ⚠` + "\ufe0f"},
		"no width":             {"gen\u200beral\u200c\u200d\ufeff\u2060\u00ad", `gen\u200beral\u200c\u200d\ufeff\u2060\u00ad`, `gen\u200beral\u200c\u200d\ufeff\u2060\u00ad`},
		"lines of other kinds": {"a\u2028b\u2029", `a\u2028b\u2029`, `a\u2028b\u2029`},
		"beyond the plane":     {"a\U000e0041", `a\U000e0041`, `a\U000e0041`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redact.Visible(c.text); got != c.want {
				t.Errorf("Visible %q, want %q", got, c.want)
			}
			if got := redact.VisibleName(c.text); got != c.asName {
				t.Errorf("VisibleName %q, want %q", got, c.asName)
			}
			raw, err := json.Marshal(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var read, flow string
			if got := redact.VisibleJSON(string(raw)); !redact.IsVisible(got) || json.Unmarshal([]byte(got), &read) != nil || read != c.text {
				t.Errorf("VisibleJSON %s reads %q", got, read)
			}
			if got := redact.VisibleFlow(string(raw)); !redact.IsVisible(got) || yaml.Unmarshal([]byte(got), &flow) != nil || flow != c.text {
				t.Errorf("VisibleFlow %s reads %q", got, flow)
			}
		})
	}
}
