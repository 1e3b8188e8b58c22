package release

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

func revision(name, number, status string, at time.Time, labels map[string]string) metav1.PartialObjectMetadata {
	all := map[string]string{"name": name, "owner": "helm", "version": number, "status": status}
	for k, v := range labels {
		all[k] = v
	}
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: all, CreationTimestamp: metav1.NewTime(at)}}
}

// TestTheRevisionBefore is the newest of our own that is made from something else than the last.
func TestTheRevisionBefore(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old, newer := Mark{Version: "1.8.6", Digest: "a", Values: "v"}, Mark{Version: "1.14.1", Digest: "b", Values: "v"}
	of := func(number int, status string, mark Mark) metav1.PartialObjectMetadata {
		return revision(charts.ControllerChart, strconv.Itoa(number), status, at, mark.labels(number))
	}
	for name, c := range map[string]struct {
		secrets []metav1.PartialObjectMetadata
		want    int
	}{
		"none":                         {},
		"the first":                    {secrets: []metav1.PartialObjectMetadata{of(1, "deployed", newer)}},
		"one before":                   {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "deployed", newer)}, want: 1},
		"the newest of them":           {secrets: []metav1.PartialObjectMetadata{of(2, "superseded", old), of(3, "deployed", newer), of(1, "superseded", old)}, want: 2},
		"the last one was repaired":    {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "superseded", newer), of(3, "deployed", newer)}, want: 1},
		"one that failed is none":      {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "failed", Mark{Version: "1.9.0", Digest: "c"}), of(3, "deployed", newer)}, want: 1},
		"another Helm client's":        {secrets: []metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "superseded", at, nil), of(2, "deployed", newer)}},
		"a revision by hand":           {secrets: []metav1.PartialObjectMetadata{revision(charts.ControllerChart, "2", "superseded", at, old.labels(1)), of(3, "deployed", newer)}},
		"one of the chart of the CRDs": {secrets: []metav1.PartialObjectMetadata{revision(charts.CRDChart, "1", "superseded", at, old.labels(1)), of(2, "deployed", newer)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := earlierThan(last(charts.ControllerChart, c.secrets), c.secrets).result(Keep)
			if got.Revision != c.want || c.want > 0 && got.Version != "1.8.6" {
				t.Errorf("revision %d, version %s, want %d", got.Revision, got.Version, c.want)
			}
		})
	}
}

func TestTheLastRevisionSpeaks(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mark := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	tests := map[string]struct {
		secrets []metav1.PartialObjectMetadata
		want    Release
	}{
		"none":           {nil, Release{Name: charts.ControllerChart, Status: Absent}},
		"another's only": {[]metav1.PartialObjectMetadata{revision(charts.CRDChart, "1", "deployed", at, mark.labels(1))}, Release{Name: charts.ControllerChart, Status: Absent}},
		"ten comes after nine": {
			[]metav1.PartialObjectMetadata{
				revision(charts.ControllerChart, "10", "deployed", at, mark.labels(10)),
				revision(charts.ControllerChart, "9", "superseded", at.Add(-time.Hour), mark.labels(9)),
			},
			Release{Name: charts.ControllerChart, Status: Deployed, Revision: 10, Mark: mark, Since: at},
		},
		"a revision by hand has our labels of before": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "2", "deployed", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Deployed, Revision: 2, Mark: mark, Edited: true, Since: at},
		},
		"somebody else's": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "pending-install", at, nil)},
			Release{Name: charts.ControllerChart, Status: Pending, Foreign: true, Revision: 1, Edited: true, Since: at},
		},
		"uninstalled with its history kept": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalled", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Since: at},
		},
		"being uninstalled by hand": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalling", at.Add(-time.Hour), withLabel(mark.labels(1), "modifiedAt", strconv.FormatInt(at.Unix(), 10)))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Edited: true, Since: time.Unix(at.Unix(), 0)},
		},
		"being uninstalled, by an old Helm": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalling", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Edited: true, Since: at},
		},
		"failed": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "failed", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Failed, Revision: 1, Mark: mark, Since: at},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, last(charts.ControllerChart, test.secrets)); diff != "" {
				t.Errorf("last (-want +got):\n%s", diff)
			}
		})
	}
}

// withLabel are labels and one more.
func withLabel(labels map[string]string, name, value string) map[string]string {
	all := maps.Clone(labels)
	all[name] = value
	return all
}
