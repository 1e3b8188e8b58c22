package render_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestSchedulesThatAreNone: they are refused by file, line and field, whether only Karpenter's CRD or only the cron
// library refuses them: the API server would refuse the whole NodePool with the former, and the latter stop all
// disruption of it.
func TestSchedulesThatAreNone(t *testing.T) {
	const byCRD = "a.yaml:14: NodePool/a: spec.disruption.budgets[0].schedule: Invalid value: %q: should match '^(@(annually|"
	const byCron = "a.yaml:14: NodePool/a: schedule %q of a disruption budget is no cron schedule: %s"
	for name, tc := range map[string]struct {
		schedule string
		want     string
	}{
		"an interval, by the CRD":              {"'@every 1h'", fmt.Sprintf(byCRD, "@every 1h")},
		"a new line at its end, by the CRD":    {"\"0 8 * * *\\n\"", fmt.Sprintf(byCRD, "0 8 * * *\n")},
		"blanks that do not break, by the CRD": {"\"0\\u00a08\\u00a0*\\u00a0*\\u00a0*\"", fmt.Sprintf(byCRD, "0\u00a08\u00a0*\u00a0*\u00a0*")},
		"a time zone of its own, by cron":      {"CRON_TZ=Europe/Berlin 0 8 * * *", fmt.Sprintf(byCron, "CRON_TZ=Europe/Berlin 0 8 * * *", "expected exactly 5 fields, found 6")},
		"another time zone, by cron":           {"TZ=Europe/Berlin 0 8 * * *", fmt.Sprintf(byCron, "TZ=Europe/Berlin 0 8 * * *", "expected exactly 5 fields, found 6")},
		"seconds, by cron":                     {"'0 0 8 * * *'", fmt.Sprintf(byCron, "0 0 8 * * *", "expected exactly 5 fields, found 6")},
		"a word and more, by cron":             {"'@daily at 8'", fmt.Sprintf(byCron, "@daily at 8", "unrecognized descriptor: @daily at 8")},
		"a day that is none, by cron":          {"0 8 * * mon-fry", fmt.Sprintf(byCron, "0 8 * * mon-fry", "failed to parse int from fry")},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(pool("a"), "requirements: []", "requirements: []\n  disruption:\n    consolidateAfter: 0s\n    budgets:\n      - nodes: 10%\n        schedule: "+tc.schedule+"\n        duration: 1h", 1)
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", embedded(t))
			expectErrors(t, err, []string{tc.want})
		})
	}
}
