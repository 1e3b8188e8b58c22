package cloud

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	// seenFor is how long what EC2 has shown of an instance holds where nothing ends by it, and
	// absentFor how long that it has not shown it.
	seenFor, absentFor = 5 * time.Minute, time.Minute
	// perQuestion is how many instances one request is counted for.
	perQuestion = 1000
)

// sightings are instances as EC2 has shown them, by provider ID. nil is one that it has not shown.
type sightings struct {
	mu sync.Mutex
	of map[string]sighting
}

type sighting struct {
	instance *Instance
	until    time.Time
}

// Running is what instances run, by the provider ID of each that EC2 shows, for what is only
// said and ends nothing: what EC2 has shown in the last minutes is not asked again, and
// the rest only within the budget of AMIs, so that Karpenter is not throttled for it.
func (c *Client) Running(ctx context.Context, q Query) (map[string]Instance, error) {
	now := c.now()
	found, missing := c.sightings.find(q.ProviderIDs, now)
	if len(missing) == 0 {
		return found, nil
	}
	if err := c.resolver.Budget().Take(now, "ec2:DescribeInstances", 1+len(missing)/perQuestion); err != nil {
		return found, err
	}
	few := Query{ProviderIDs: missing}
	if len(missing) > filterValues {
		few.Cluster, few.Pools = q.Cluster, q.Pools
	}
	shown, err := c.Instances(ctx, few)
	c.sightings.keep(shown, missing, err == nil, now)
	found, _ = c.sightings.find(q.ProviderIDs, now)
	return found, err
}

// find are those that are known to be there, and those that EC2 has to be asked about.
func (s *sightings) find(ids []string, now time.Time) (found map[string]Instance, missing []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = map[string]Instance{}
	for _, id := range distinct(ids) {
		switch known, ok := s.of[id]; {
		case !ok || !now.Before(known.until):
			missing = append(missing, id)
		case known.instance != nil:
			found[id] = *known.instance
		}
	}
	return found, missing
}

// keep notes what EC2 has shown of those that it was asked about; whole says that it has shown all.
func (s *sightings) keep(shown []Instance, asked []string, whole bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(_ string, old sighting) bool { return !now.Before(old.until) })
	if s.of == nil {
		s.of = map[string]sighting{}
	}
	if whole {
		for _, id := range asked {
			s.of[id] = sighting{until: now.Add(absentFor)}
		}
	}
	for i := range shown {
		s.of[shown[i].ProviderID()] = sighting{instance: &shown[i], until: now.Add(seenFor)}
	}
}
