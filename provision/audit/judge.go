package audit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/internal/shell"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/preflight"
)

// Kind is what a Finding is about.
type Kind string

// The kinds of findings, in the order of Judge.
const (
	// SameName: two controllers use one name in one account and region, so each terminates the other's nodes.
	SameName Kind = "same-name"
	// OtherName: a controller uses another name than that of its EKS cluster.
	OtherName Kind = "other-name"
	// SharedQueue: controllers of two clusters read one interruption queue.
	SharedQueue Kind = "shared-queue"
	// SharedRole: two clusters use one role.
	SharedRole Kind = "shared-role"
	// BroadPolicy: a controller's role is not restricted to its cluster.
	BroadPolicy Kind = "broad-policy"
	// Discovery: what one cluster selects for its nodes belongs to another one, or is selected by it, too.
	Discovery Kind = "discovery"
	// Termination: the role of one cluster's controller has terminated instances that the role of another one's has launched.
	Termination Kind = "termination"
	// NamePattern: a name does not match the pattern.
	NamePattern Kind = "name-pattern"
	// Unknown: something could not be read.
	Unknown Kind = "unknown"
)

// PolicyFile contains the permissions of the queries, and TrailPolicyFile the one for CloudTrail.
const (
	PolicyFile      = "manifests/iam-policy-audit.json"
	TrailPolicyFile = "manifests/iam-policy-cloudtrail.json"
)

// Finding is one result of Judge.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	// Clusters are those that it is about.
	Clusters []string `json:"clusters,omitempty"`
	Message  string   `json:"message"`
	// Fix corrects it.
	Fix string `json:"fix,omitempty"`
	// Action is the one that is missing if the finding is Unknown because a call was denied.
	Action string `json:"action,omitempty"`
}

// Judge returns what clusters share by mistake. The findings are in the order of the kinds, each once.
func Judge(o Observed) []Finding {
	names, named := sameNames(o)
	return slices.Concat(names, otherNames(o, named), sharedQueues(o), sharedRoles(o), broadPolicies(o), discovery(o),
		terminations(o), outsidePattern(o), unread(o))
}

// Found reports whether a finding is not Unknown, and Incomplete whether one is.
func Found(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Kind != Unknown })
}

// Incomplete reports whether something could not be read.
func Incomplete(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Kind == Unknown })
}

// label names a cluster in messages.
func (c Cluster) label() string {
	switch {
	case c.Name == "":
		return fmt.Sprintf("the cluster of context %s (%s)", c.Context, c.Endpoint)
	case c.Endpoint == "":
		return "EKS cluster " + c.Name
	}
	return fmt.Sprintf("EKS cluster %s (%s)", c.Name, c.Endpoint)
}

// short names a cluster in lists.
func (c Cluster) short() string { return cmp.Or(c.Name, c.Context) }

// place is an account and region, in which names are unique.
type place struct{ account, region string }

func (c Cluster) place() place { return place{c.Account, c.Region} }

// use is something that a cluster uses.
type use struct {
	cluster Cluster
	what    string
}

// key identifies what may be used by one cluster only.
type key struct {
	place
	name string
}

// group collects uses by key, and returns the keys in their order.
func group(o Observed, of func(Cluster) map[string][]string, where func(Cluster) place) (keys []key, uses map[key][]use) {
	uses = map[key][]use{}
	for _, c := range o.Clusters {
		for name, all := range of(c) {
			k := key{where(c), name}
			for _, what := range all {
				uses[k] = append(uses[k], use{c, what})
			}
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.region, b.region), cmp.Compare(a.name, b.name))
	})
	return slices.Compact(keys), uses
}

// clustersOf returns the names of the clusters of some uses, each once, and lists the uses.
func clustersOf(all []use) (names []string, list string) {
	var texts []string
	for _, u := range all {
		if name := u.cluster.short(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		texts = append(texts, u.what+" of "+u.cluster.label())
	}
	return names, strings.Join(texts, " and ")
}

// controllers returns the running ones by a setting.
func controllers(setting func(Controller) string) func(Cluster) map[string][]string {
	return func(c Cluster) map[string][]string {
		by := map[string][]string{}
		for _, one := range c.Controllers {
			if s := setting(one); s != "" && one.Running {
				by[s] = append(by[s], one.label())
			}
		}
		return by
	}
}

func (c Controller) label() string { return "Deployment " + c.Namespace + "/" + c.Name }

// sameNames returns the names that several controllers use in one account and region, and whether a cluster's controller
// was named there. If the account of one of them is unknown, so is whether they collide.
func sameNames(o Observed) (found []Finding, named map[string]bool) {
	named = map[string]bool{}
	keys, uses := group(o, controllers(func(c Controller) string { return c.ClusterName }), Cluster.place)
	for _, k := range keys {
		all := uses[k]
		if k.account == "" {
			for _, other := range keys {
				if other != k && other.name == k.name {
					all = append(all, uses[other]...)
				}
			}
		}
		if len(all) < 2 {
			continue
		}
		clusters, list := clustersOf(all)
		f := Finding{
			Kind: SameName, Account: k.account, Region: k.region, Clusters: clusters,
			Message: fmt.Sprintf("%s use the name %s in account %s, %s: each terminates the other's nodes", list, k.name, k.account, k.region),
			Fix: "stop all but one of them, and give the others the name of their own EKS cluster: settings.clusterName; " +
				"plumbline identity prints a policy that denies the use of a name",
		}
		if k.account == "" {
			f.Kind = Unknown
			f.Message = fmt.Sprintf("%s use the name %s; the account and region of the cluster of one of them are unknown", list, k.name)
			f.Fix = "add its profile to --profiles, and its region to --regions"
		} else {
			for _, u := range all {
				named[u.cluster.ARN+u.what] = true
			}
		}
		found = append(found, f)
	}
	return found, named
}

// otherNames returns the controllers with another name than that of their EKS cluster, except those that were named.
func otherNames(o Observed, named map[string]bool) (found []Finding) {
	for _, c := range o.Clusters {
		for _, one := range c.Controllers {
			if c.Name == "" || !one.Running || one.ClusterName == c.Name || named[c.ARN+one.label()] {
				continue
			}
			f := Finding{
				Kind: OtherName, Account: c.Account, Region: c.Region, Clusters: []string{c.Name},
				Message: fmt.Sprintf("%s of %s uses the name %s, which EKS does not keep unique for it", one.label(), c.label(), one.ClusterName),
				Fix:     "install Karpenter with settings.clusterName=" + c.Name + "; its nodes have to be replaced",
			}
			owner := slices.IndexFunc(o.Clusters, func(other Cluster) bool { return other.place() == c.place() && other.Name == one.ClusterName })
			switch {
			case one.ClusterName == "":
				f.Kind, f.Message = Unknown, fmt.Sprintf("%s of %s does not have CLUSTER_NAME as a plain value", one.label(), c.label())
				f.Fix = "set settings.clusterName in the chart's values"
			case owner >= 0:
				f.Clusters = append(f.Clusters, o.Clusters[owner].Name)
				f.Message = fmt.Sprintf("%s of %s uses the name of %s: it terminates the nodes of that cluster's Karpenter", one.label(), c.label(),
					o.Clusters[owner].label())
			}
			found = append(found, f)
		}
	}
	return found
}

func sharedQueues(o Observed) (found []Finding) {
	keys, uses := group(o, controllers(func(c Controller) string { return c.Queue }), Cluster.place)
	for _, k := range keys {
		clusters, list := clustersOf(uses[k])
		if k.account == "" || len(clusters) < 2 {
			continue
		}
		found = append(found, Finding{
			Kind: SharedQueue, Account: k.account, Region: k.region, Clusters: clusters,
			Message: fmt.Sprintf("%s read queue %s: each deletes messages about the other's instances, which are then not drained", list, k.name),
			Fix:     "give each cluster a queue with rules of its own: settings.interruptionQueue",
		})
	}
	return found
}

// sharedRoles returns the roles that controllers of two clusters, or nodes of two clusters, have.
func sharedRoles(o Observed) (found []Finding) {
	nowhere := func(Cluster) place { return place{} } // the ARN of a role has its account
	keys, uses := group(o, controllers(func(c Controller) string { return c.RoleARN }), nowhere)
	for _, k := range keys {
		clusters, list := clustersOf(uses[k])
		if len(clusters) < 2 {
			continue
		}
		found = append(found, Finding{
			Kind: SharedRole, Account: cloud.AccountOf(k.name), Clusters: clusters,
			Message: fmt.Sprintf("%s have the role %s: no condition in its policies can keep one from the nodes of the other", list, k.name),
			Fix:     "create a role for each cluster: plumbline iam-policy",
		})
	}
	keys, uses = group(o, nodeRoles, func(c Cluster) place { return place{account: c.Account} })
	for _, k := range keys {
		clusters, list := clustersOf(uses[k])
		if k.account == "" || len(clusters) < 2 {
			continue
		}
		found = append(found, Finding{
			Kind: SharedRole, Account: k.account, Clusters: clusters,
			Message: fmt.Sprintf("%s give nodes the role %s: a node of one cluster can join the other", list, k.name),
			Fix:     "create a role of nodes for each cluster, and set spec.role of the EC2NodeClasses",
		})
	}
	return found
}

// nodeRoles returns the EC2NodeClasses of a cluster by role of nodes.
func nodeRoles(c Cluster) map[string][]string {
	by := map[string][]string{}
	for i := range c.Classes {
		if role := c.Classes[i].Spec.Role; role != "" {
			by[role] = append(by[role], "EC2NodeClass/"+c.Classes[i].Name)
		}
	}
	return by
}

// broadPolicies returns the roles of controllers that are not restricted to their cluster.
func broadPolicies(o Observed) (found []Finding) {
	for _, c := range o.Clusters {
		for _, one := range c.Controllers {
			switch {
			case !one.Read || c.Account == "":
			case one.RoleARN == "":
				found = append(found, Finding{
					Kind: Unknown, Account: c.Account, Region: c.Region, Clusters: []string{c.Name},
					Message: fmt.Sprintf("%s of %s has no role of its own: it uses that of its node, or credentials in its environment", one.label(), c.label()),
					Fix:     "give its ServiceAccount a role by EKS Pod Identity or IRSA",
				})
			default:
				found = append(found, c.broad(one)...)
			}
		}
	}
	return found
}

func (c Cluster) broad(one Controller) []Finding {
	f := Finding{Account: c.Account, Region: c.Region, Clusters: []string{c.Name}}
	all, err := c.judged(one)
	if err != nil {
		f.Kind, f.Message = Unknown, fmt.Sprintf("role %s of %s: %v", one.RoleARN, c.label(), err)
		return []Finding{f}
	}
	var reaches, undecided []string
	for _, j := range all {
		switch text := fmt.Sprintf("%s (%s)", j.Message, strings.Join(j.Actions, ", ")); j.Kind {
		case iam.TooBroad:
			reaches = append(reaches, text)
		case iam.Undecided:
			undecided = append(undecided, text)
		case iam.Missing, iam.Differs: // plumbline doctor
		}
	}
	var found []Finding
	if len(reaches) > 0 {
		broad := f
		broad.Kind = BroadPolicy
		broad.Message = fmt.Sprintf("role %s of %s is not restricted to its cluster: it %s", one.RoleARN, c.label(), strings.Join(reaches, "; "))
		broad.Fix = fmt.Sprintf("plumbline iam-policy --cluster %s --region %s --account %s --version %s --queue %s -o json",
			c.Name, c.Region, c.Account, shell.Word(one.Version), shell.Word(one.Queue))
		found = append(found, broad)
	}
	if len(undecided) > 0 {
		f.Kind, f.Message = Unknown, fmt.Sprintf("role %s of %s: %s", one.RoleARN, c.label(), strings.Join(undecided, "; "))
		found = append(found, f)
	}
	return found
}

// judged returns the findings about the policies of a controller's role.
func (c Cluster) judged(one Controller) ([]iam.Finding, error) {
	policies, limits, err := preflight.Documents(one.Grant)
	if err != nil {
		return nil, err
	}
	of := iam.Cluster{Name: c.Name, Region: c.Region, Account: cloud.AccountOf(one.RoleARN), Queue: one.Queue}
	for role := range nodeRoles(c) {
		of.NodeRoles = append(of.NodeRoles, role[strings.LastIndex(role, ":role/")+1:])
	}
	slices.Sort(of.NodeRoles)
	return iam.Judge(policies, one.Version, of, limits...)
}

// terminations returns the controllers that have terminated instances of another cluster's controller, by their roles. Instances
// that were launched before the calls that were read, and roles that two clusters share, cannot be attributed.
func terminations(o Observed) (found []Finding) {
	owner := map[string]Cluster{}
	for _, c := range o.Clusters {
		for _, one := range c.Controllers {
			if one.RoleARN != "" {
				owner[one.RoleARN] = c
			}
		}
	}
	for _, t := range o.Trails {
		launched := map[string]string{}
		for _, call := range t.Launched {
			for _, id := range call.Instances {
				launched[id] = call.Principal
			}
		}
		// of has the instances by the role that terminated them, and the one that launched them.
		of := map[[2]string][]string{}
		last := map[[2]string]time.Time{}
		for _, call := range t.Terminated {
			for _, id := range call.Instances {
				pair := [2]string{call.Principal, launched[id]}
				by, victim := owner[pair[0]], owner[pair[1]]
				if by.short() == "" || victim.short() == "" || by.short() == victim.short() || slices.Contains(of[pair], id) {
					continue
				}
				of[pair] = append(of[pair], id)
				if call.At.After(last[pair]) {
					last[pair] = call.At
				}
			}
		}
		pairs := slices.SortedFunc(maps.Keys(of), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		for _, pair := range pairs {
			by, victim := owner[pair[0]], owner[pair[1]]
			slices.Sort(of[pair])
			found = append(found, Finding{
				Kind: Termination, Account: t.Account, Region: t.Region, Clusters: []string{by.short(), victim.short()},
				Message: fmt.Sprintf("%s, the role of %s, has terminated %s of %s, the last at %s, such as %s", pair[0], by.label(),
					english.Plural(len(of[pair]), "instance", ""), victim.label(), last[pair].UTC().Format(time.RFC3339), of[pair][0]),
				Fix: "find out whether both have one name, and restrict the role to its cluster: plumbline iam-policy",
			})
		}
	}
	return found
}

func outsidePattern(o Observed) (found []Finding) {
	if o.NamePattern == nil {
		return nil
	}
	for _, c := range o.Clusters {
		names := []string{c.Name}
		for _, one := range c.Controllers {
			names = append(names, one.ClusterName)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name == "" || o.NamePattern.FindString(name) == name {
				continue
			}
			found = append(found, Finding{
				Kind: NamePattern, Account: c.Account, Region: c.Region, Clusters: []string{c.short()},
				Message: fmt.Sprintf("the name %s of %s does not match %s", name, c.label(), o.NamePattern),
			})
		}
	}
	return found
}

// unread returns what could not be read, and clusters whose controllers are unknown.
func unread(o Observed) (found []Finding) {
	for _, u := range o.Unread {
		found = append(found, u.findings()...)
	}
	for _, c := range o.Clusters {
		switch {
		case c.Context == "" && o.WithContexts:
			found = append(found, Finding{
				Kind: Unknown, Account: c.Account, Region: c.Region, Clusters: []string{c.Name},
				Message: fmt.Sprintf("no context reaches %s: its controllers are unknown", c.label()),
				Fix:     fmt.Sprintf("aws eks update-kubeconfig --region %s --name %s, and add the context to --contexts", c.Region, c.Name),
			})
		case c.Name == "":
			found = append(found, Finding{
				Kind: Unknown, Clusters: []string{c.Context},
				Message: fmt.Sprintf("%s is none of the EKS clusters that were read: its account and region are unknown", c.label()),
				Fix:     "add its profile to --profiles, and its region to --regions",
			})
		}
	}
	return found
}

// findings returns the denied calls of an error, or the error.
func (u Unread) findings() []Finding {
	var found []Finding
	for _, call := range cloud.DeniedCalls(u.Err) {
		file := PolicyFile
		if call.Action == "cloudtrail:LookupEvents" {
			file = TrailPolicyFile
		}
		found = append(found, Finding{
			Kind: Unknown, Action: call.Action, Message: fmt.Sprintf("%s: AWS denies %s: %s", u.What, call.Action, call.Detail),
			Fix: fmt.Sprintf("allow %s on %s to the credentials in use, as %s does", call.Action, call.Resource, file),
		})
	}
	if len(found) > 0 {
		return found
	}
	f := Finding{Kind: Unknown, Message: fmt.Sprintf("%s: %v", u.What, u.Err)}
	var status *apierrors.StatusError
	if errors.As(u.Err, &status) && apierrors.IsForbidden(u.Err) && status.ErrStatus.Details != nil {
		f.Action = strings.TrimSuffix(status.ErrStatus.Details.Kind+"."+status.ErrStatus.Details.Group, ".")
		f.Fix = "allow the user of the context to list " + f.Action
	}
	return []Finding{f}
}
