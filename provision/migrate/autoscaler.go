package migrate

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// Autoscaler is a Deployment of the Cluster Autoscaler.
type Autoscaler struct {
	Ref
	// Replicas are those in its spec, and Running the pods that it still has.
	Replicas, Running int
	// Before are the replicas that it had, by ReplicasAnnotation; -1 if it has none.
	Before int
	// Groups are the Auto Scaling groups that --nodes names.
	Groups []string
	// Discovery are the tags of --node-group-auto-discovery, each as one flag has them. A value that is empty matches any.
	Discovery []map[string]string
	Owner     owners.Owner
}

// The flags of the Cluster Autoscaler for AWS:
// https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
const (
	nodesFlag     = "nodes"
	discoveryFlag = "node-group-auto-discovery"
)

// Autoscalers returns the Deployments of the Cluster Autoscaler, sorted by namespace and name.
func (f *Facts) Autoscalers() []Autoscaler {
	var found []Autoscaler
	for i := range f.Deployments {
		if a, ok := autoscalerOf(&f.Deployments[i]); ok {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b Autoscaler) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found
}

// autoscalerOf recognises the Cluster Autoscaler by the image or the program of a container, and reads its arguments.
func autoscalerOf(d *appsv1.Deployment) (Autoscaler, bool) {
	a := Autoscaler{
		Ref: Ref{"Deployment", d.Namespace, d.Name}, Replicas: 1, Running: int(d.Status.Replicas), Before: -1, Owner: owners.Of(d),
	}
	if d.Spec.Replicas != nil {
		a.Replicas = int(*d.Spec.Replicas)
	}
	if before, err := strconv.Atoi(d.Annotations[ReplicasAnnotation]); err == nil && before >= 0 {
		a.Before = before
	}
	for i := range d.Spec.Template.Spec.Containers {
		c := &d.Spec.Template.Spec.Containers[i]
		if !runsAutoscaler(c) {
			continue
		}
		for _, flag := range flagsIn(slices.Concat(c.Command, c.Args)) {
			switch flag.name {
			case nodesFlag: // MIN:MAX:NAME
				if parts := strings.SplitN(flag.value, ":", 3); len(parts) == 3 {
					a.Groups = append(a.Groups, parts[2])
				}
			case discoveryFlag: // asg:tag=KEY[=VALUE],KEY[=VALUE]
				if tags := discoveryTags(flag.value); len(tags) > 0 {
					a.Discovery = append(a.Discovery, tags)
				}
			}
		}
		return a, true
	}
	return a, false
}

// runsAutoscaler reports whether a container is the Cluster Autoscaler: the name of its image or of its program is.
func runsAutoscaler(c *corev1.Container) bool {
	const program = "cluster-autoscaler"
	image, _, _ := strings.Cut(c.Image, "@")
	name, _, _ := strings.Cut(path.Base(image), ":")
	return strings.HasPrefix(name, program) || slices.ContainsFunc(c.Command, func(word string) bool { return path.Base(word) == program })
}

type flag struct{ name, value string }

// flagsIn parses --name=value and --name value.
func flagsIn(words []string) []flag {
	var flags []flag
	for i := 0; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "-")
		if !ok {
			continue
		}
		name = strings.TrimPrefix(name, "-")
		name, value, set := strings.Cut(name, "=")
		if !set && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		flags = append(flags, flag{name, strings.Trim(value, `"'`)})
	}
	return flags
}

func discoveryTags(value string) map[string]string {
	list, ok := strings.CutPrefix(value, "asg:tag=")
	if !ok {
		return nil
	}
	tags := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(pair), "="); key != "" {
			tags[key] = value
		}
	}
	return tags
}

// Scales reports whether the autoscaler changes the size of an Auto Scaling group: it names it, or the group has all tags of
// a flag.
func (a *Autoscaler) Scales(group *cloud.AutoScalingGroup) bool {
	if slices.Contains(a.Groups, group.Name) {
		return true
	}
	return slices.ContainsFunc(a.Discovery, func(tags map[string]string) bool {
		for key, value := range tags {
			if has, ok := group.Tags[key]; !ok || value != "" && has != value {
				return false
			}
		}
		return true
	})
}

func anyScales(all []Autoscaler, group *cloud.AutoScalingGroup) bool {
	return slices.ContainsFunc(all, func(a Autoscaler) bool { return a.Scales(group) })
}

// TagKeys returns the keys of tags by which the Auto Scaling groups of a cluster are found, and Names those that autoscalers
// name.
func TagKeys(cluster string, all []Autoscaler) (keys, names []string) {
	keys = []string{"kubernetes.io/cluster/" + cluster, "k8s.io/cluster/" + cluster}
	for _, a := range all {
		names = append(names, a.Groups...)
		for _, tags := range a.Discovery {
			for key := range tags {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), names
}
