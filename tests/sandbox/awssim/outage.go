package awssim

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// Outage starts or ends the disruption of a zone. Meanwhile, queries for instances fail unless they name only instances
// of other zones, and instances in the zone can be neither launched nor terminated:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
func (s *Simulator) Outage(zone string, begins bool) error {
	if !slices.Contains(s.options.Zones, zone) {
		return fmt.Errorf("disrupting a zone: region %s has no zone %q", s.options.Region, zone)
	}
	s.locked(func(a *account) { a.outages[zone] = begins })
	return nil
}

// Restore ends everything that was changed for tests: faults, shortages, spoiled images, outages, answers other than
// the default, termination protection, and states of clusters.
func (s *Simulator) Restore() {
	s.RemoveFaults("")
	s.locked(func(a *account) {
		a.shortages, a.spoiled, a.answers = nil, "", DefaultAnswers()
		clear(a.outages)
		clear(a.missed)
		for _, i := range a.instances {
			i.protected = false
		}
		for _, c := range a.clusters {
			c.status = clusterActive
		}
	})
}

// disrupted returns an error if a zone of these instances is disrupted; without instances, if any zone is.
func (a *account) disrupted(instances []*instance) error {
	for zone, down := range a.outages {
		if down && (len(instances) == 0 || slices.ContainsFunc(instances, func(i *instance) bool { return i.subnet.zone == zone })) {
			return unavailable()
		}
	}
	return nil
}

func unavailable() error {
	return wire.Errorf("Unavailable", "The server is overloaded and can't handle the request.").WithStatus(http.StatusServiceUnavailable)
}
