package awssim

import (
	"cmp"
	"maps"
	"slices"
)

// State is everything a test may want to know about the account, in JSON.
type State struct {
	Region          string            `json:"region"`
	Account         string            `json:"account"`
	Clusters        []string          `json:"clusters"`
	Instances       []Instance        `json:"instances"`
	Interfaces      []InterfaceState  `json:"interfaces"`
	Volumes         []VolumeState     `json:"volumes"`
	LaunchTemplates []NamedState      `json:"launchTemplates"`
	Profiles        []ProfileState    `json:"instanceProfiles"`
	Roles           []string          `json:"roles"`
	Queues          map[string]int    `json:"queues"`  // number of messages in each
	Subnets         map[string]string `json:"subnets"` // ID to zone
}

// InterfaceState is a network interface.
type InterfaceState struct {
	resource
	Instance string `json:"instance"`
	IP       string `json:"ip"`
}

// VolumeState is a volume; Instance and Device are empty unless it is attached.
type VolumeState struct {
	resource
	Zone     string `json:"zone"`
	SizeGiB  int64  `json:"sizeGiB"`
	State    string `json:"state"`
	Instance string `json:"instance,omitempty"`
	Device   string `json:"device,omitempty"`
}

// NamedState is a resource with a name and an ID.
type NamedState struct {
	resource
	Name string `json:"name"`
}

// ProfileState is an instance profile.
type ProfileState struct {
	NamedState
	Path string `json:"path"`
	Role string `json:"role,omitempty"`
}

// State returns the current state of the account.
func (s *Simulator) State() State {
	var state State
	s.locked(func(a *account) { state = a.state() })
	return state
}

func (a *account) state() State {
	st := State{
		Region: a.options.Region, Account: a.options.Account,
		Clusters:  slices.Sorted(maps.Keys(a.clusters)),
		Instances: a.instanceViews(),
		Roles:     slices.Sorted(maps.Keys(a.roles)),
		Queues:    map[string]int{}, Subnets: map[string]string{},
	}
	for _, n := range byID(a.interfaces, func(n *networkInterface) string { return n.ID }) {
		st.Interfaces = append(st.Interfaces, InterfaceState{n.clone(), n.instanceID, n.ip})
	}
	for _, v := range byID(a.volumes, func(v *volume) string { return v.ID }) {
		vs := VolumeState{resource: v.clone(), Zone: v.zone, SizeGiB: v.sizeGiB, State: v.state()}
		if v.attachment != nil {
			vs.Instance, vs.Device = v.attachment.instanceID, v.attachment.device
		}
		st.Volumes = append(st.Volumes, vs)
	}
	for _, t := range byID(a.templates, func(t *launchTemplate) string { return t.ID }) {
		st.LaunchTemplates = append(st.LaunchTemplates, NamedState{t.clone(), t.name})
	}
	for _, p := range byID(a.profiles, func(p *instanceProfile) string { return p.ID }) {
		ps := ProfileState{NamedState: NamedState{p.clone(), p.name}, Path: p.path}
		if p.role != nil {
			ps.Role = p.role.name
		}
		st.Profiles = append(st.Profiles, ps)
	}
	for name, q := range a.queues {
		st.Queues[name] = len(q.messages)
	}
	for id, s := range a.subnets {
		st.Subnets[id] = s.zone
	}
	return st
}

// clone copies r for callers without the mutex.
func (r resource) clone() resource {
	r.Tags = maps.Clone(r.Tags)
	return r
}

func byID[T any](all map[string]T, id func(T) string) []T {
	return slices.SortedFunc(maps.Values(all), func(x, y T) int { return cmp.Compare(id(x), id(y)) })
}
