package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

func TestCount(t *testing.T) {
	began := time.Unix(100, 0)
	object := func(second int64, code int) kube.Write {
		return kube.Write{Time: time.Unix(second, 0), User: user, Group: "karpenter.sh", Resource: "nodepools", Code: code}
	}
	status := kube.Write{Time: time.Unix(109, 0), User: user, Group: "plumbline.dev", Resource: "nodesyncs", Subresource: "status", Code: 200}
	foreign := kube.Write{Time: time.Unix(120, 0), User: "admin", Group: "karpenter.sh", Resource: "nodepools", Code: 200}
	for name, c := range map[string]struct {
		writes []kube.Write
		want   Row
	}{
		"the last object's answer stops the clock": {
			writes: []kube.Write{object(101, 200), object(104, 201), status, foreign},
			want:   Row{Wall: 4 * time.Second, Writes: 2, Patches: 1},
		},
		"without objects the status does": {
			writes: []kube.Write{status, foreign},
			want:   Row{Wall: 9 * time.Second, Patches: 1},
		},
		"a refused write is told apart": {
			writes: []kube.Write{object(101, 409), object(102, 200)},
			want:   Row{Wall: 2 * time.Second, Writes: 1, Refused: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, count(c.writes, began)); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExact(t *testing.T) {
	for name, c := range map[string]struct {
		row  Row
		want int
		ok   bool
	}{
		"as many as wanted": {Row{Writes: 1}, 1, true},
		"one too many":      {Row{Writes: 2}, 1, false},
		"none for one":      {Row{}, 1, false},
		"one for none":      {Row{Writes: 1}, 0, false},
		"a refused one":     {Row{Writes: 1, Refused: 1}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := exact(c.row, c.want); (err == nil) != c.ok {
				t.Errorf("exact: %v", err)
			}
		})
	}
}
