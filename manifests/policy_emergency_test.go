package manifests

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestAnEmergencyIsDeclaredByWhoMay: only authorized users may declare one, in their own name; any user may end it.
func TestAnEmergencyIsDeclaredByWhoMay(t *testing.T) {
	p := compile(t)
	sync := func(annotations string) string {
		return "{apiVersion: plumbline.dev/v1alpha1, kind: NodeSync, metadata: {name: prod, namespace: plumbline-system, annotations: {" + annotations + "}}, spec: {path: ./a}}"
	}
	until := func(hour, by string) string {
		return sync("plumbline.dev/emergency-until: '2026-12-24T" + hour + ":00:00Z', plumbline.dev/emergency-by: '" + by + "'")
	}
	ann, bob := &user.DefaultInfo{Name: "ann@example.com"}, &user.DefaultInfo{Name: "bob@example.com"}
	const may, recorded = "must not declare an emergency", "set it in the same write to "
	for name, c := range map[string]struct {
		// before is empty if the NodeSync is created.
		before, after string
		by            user.Info
		want          []string
	}{
		"by who may":                       {before: sync(""), after: until("20", ann.Name), by: ann},
		"by another":                       {before: sync(""), after: until("20", bob.Name), by: bob, want: []string{may}},
		"by plumbline":                     {before: sync(""), after: until("20", plumbline.Name), by: plumbline, want: []string{may}},
		"in another name":                  {before: sync(""), after: until("20", bob.Name), by: ann, want: []string{recorded + ann.Name}},
		"in the name of who may":           {before: sync(""), after: until("20", ann.Name), by: bob, want: []string{may, recorded + bob.Name}},
		"in no name":                       {before: sync(""), after: sync("plumbline.dev/emergency-until: '2026-12-24T20:00:00Z'"), by: ann, want: []string{recorded + ann.Name}},
		"with the NodeSync":                {after: until("20", bob.Name), by: bob, want: []string{may}},
		"longer":                           {before: until("20", ann.Name), after: until("22", ann.Name), by: bob, want: []string{may, recorded + bob.Name}},
		"longer, by who may":               {before: until("20", "carl"), after: until("22", ann.Name), by: ann},
		"another has declared it":          {before: until("20", ann.Name), after: until("20", bob.Name), by: bob, want: []string{may}},
		"another reason":                   {before: until("20", ann.Name), after: strings.Replace(until("20", ann.Name), "emergency-by", "emergency-reason: x, plumbline.dev/emergency-by", 1), by: bob, want: []string{may, recorded + bob.Name}},
		"a reason, by who may":             {before: sync(""), after: strings.Replace(until("20", ann.Name), "emergency-by", "emergency-reason: x, plumbline.dev/emergency-by", 1), by: ann},
		"nobody has":                       {before: until("20", ann.Name), after: sync("plumbline.dev/emergency-until: '2026-12-24T20:00:00Z'"), by: ann, want: []string{recorded + ann.Name}},
		"it is taken back":                 {before: until("20", ann.Name), after: sync(""), by: bob},
		"it is emptied":                    {before: until("20", ann.Name), after: sync("plumbline.dev/emergency-until: ''"), by: bob},
		"it stays, and something else not": {before: until("20", ann.Name), after: strings.Replace(until("20", ann.Name), "./a", "./b", 1), by: bob},
		"there is none":                    {before: sync(""), after: sync("a: b"), by: bob},
		"created without one":              {after: sync(""), by: bob},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies{t, p.byOf}
			w := write{operation: admission.Create, resource: "nodesyncs", object: parse(t, c.after), by: c.by, declares: ann.Name}
			if c.before != "" {
				w.operation, w.old = admission.Update, parse(t, c.before)
			}
			var messages []string
			for _, message := range p.denied(w) {
				if !strings.HasPrefix(message, "plumbline must not change the spec of a NodeSync") { // from another policy
					messages = append(messages, message)
				}
			}
			all := strings.Join(messages, "; ")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("denied %q, want %q", messages, want)
				}
			}
			if len(messages) != len(c.want) {
				t.Errorf("denied %q, want %q", messages, c.want)
			}
		})
	}
}
