package leftover

import (
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// Scope is what a user's command may end of what is left of a cluster.
type Scope struct {
	Cluster string
	// Instances may be terminated, and Leftovers deleted: volumes and interfaces that are attached to
	// nothing, launch templates, instance profiles.
	Instances, Leftovers bool
}

// Ending is what becomes of what is left.
type Ending struct {
	// Ends are to be ended; Going are instances that EC2 is ending.
	Ends, Going []cloud.Resource
	// Spared stay, though they are of a kind that may be ended.
	Spared []Spared

	// runs says that an instance is left, or that EC2 has not said.
	runs bool
}

// Now are those that may be ended at once: an instance needs its profile until EC2 has ended it.
func (e Ending) Now() (now []cloud.Resource) {
	for _, r := range e.Ends {
		if r.Kind != cloud.KindInstanceProfile || !e.runs {
			now = append(now, r)
		}
	}
	return now
}

// Of says what becomes of one of them: whether it is to be ended, or else why it stays.
func (e Ending) Of(id string) (ends bool, spared string) {
	for _, s := range e.Spared {
		if s.ID == id {
			return false, s.Why
		}
	}
	return slices.ContainsFunc(e.Ends, func(r cloud.Resource) bool { return r.ID == id }), ""
}

// Spared is something that stays, and why.
type Spared struct {
	cloud.Resource

	Why string
}

// Ends judges what of AWS's answers may be ended: what is left, and by its tags of this cluster only. An
// instance profile is listed without its tags, which are to be looked at when it is deleted.
func Ends(answers []cloud.Answer, known Known, scope Scope) (e Ending) {
	var user string
	e.runs, user = runs(answers, known, scope)
	for _, answer := range answers {
		inScope := scope.Leftovers
		if answer.Kind == cloud.KindInstance {
			inScope = scope.Instances
		}
		if !inScope {
			continue
		}
		for _, r := range answer.Resources {
			if _, where := judge(r, known); where != left {
				continue
			}
			why := spares(r, known, scope.Cluster)
			if why == "" && r.Kind == cloud.KindInstanceProfile && user != "" {
				why = "instance " + user + " stays, and may use it"
			}
			switch {
			case why != "":
				e.Spared = append(e.Spared, Spared{r, why})
			case r.Kind == cloud.KindInstance && r.State == "shutting-down":
				e.Going = append(e.Going, r)
			default:
				e.Ends = append(e.Ends, r)
			}
		}
	}
	return e
}

// runs says whether an instance of the cluster is left, and names one that this scope does not end. One of a
// NodePool that stays does not count: its profile is known by its NodeClaim and its EC2NodeClass.
func runs(answers []cloud.Answer, known Known, scope Scope) (one bool, stays string) {
	for _, answer := range answers {
		if answer.Kind != cloud.KindInstance {
			continue
		}
		one = one || answer.Err != nil
		for _, r := range answer.Resources {
			if _, where := judge(r, known); where != left {
				continue
			}
			one = true
			if stays == "" && (!scope.Instances || spares(r, known, scope.Cluster) != "") {
				stays = r.ID
			}
		}
	}
	return one, stays
}

// Attached are the volumes that are attached to some of the instances, and that EC2 may leave when these end.
func Attached(answers []cloud.Answer, instances []cloud.Resource) (volumes []cloud.Resource) {
	for _, answer := range answers {
		for _, r := range answer.Resources {
			if r.Kind == cloud.KindVolume && r.Alive && slices.ContainsFunc(instances, func(i cloud.Resource) bool { return i.ID == r.Instance }) {
				volumes = append(volumes, r)
			}
		}
	}
	return volumes
}

// spares says why something is not ended; empty where it is.
func spares(r cloud.Resource, known Known, cluster string) string {
	volume, has := known.Volumes[r.ID]
	switch r.Kind {
	case cloud.KindVolume, cloud.KindNetworkInterface:
		if r.State != "available" {
			return "it is " + r.State
		}
	case cloud.KindInstanceProfile:
		if known.Unprofiled != "" {
			return "NodeClaim " + known.Unprofiled + " does not say which instance profile it has"
		}
		if len(r.Tags) == 0 {
			return ""
		}
	case cloud.KindInstance, cloud.KindLaunchTemplate:
	}
	if r.Kind == cloud.KindVolume && has {
		return fmt.Sprintf("PersistentVolume %s is in the cluster: delete its claim", volume.Name)
	}
	if err := r.Claimed(cluster); err != nil {
		return err.Error()
	}
	return ""
}

// Listed is what there is on one line, as a Report's.
func Listed(resources []cloud.Resource) string {
	var report Report
	for _, r := range resources {
		if last := len(report.Kinds) - 1; last < 0 || report.Kinds[last].Kind != r.Kind {
			report.Kinds = append(report.Kinds, Kind{Kind: r.Kind})
		}
		kind := &report.Kinds[len(report.Kinds)-1]
		kind.Left = append(kind.Left, Item{ID: r.ID})
	}
	return report.String()
}
