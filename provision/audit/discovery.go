package audit

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// discoveryTag is the tag of Karpenter's getting-started guide, eksctl and terraform-aws-eks for what EC2NodeClasses select.
const discoveryTag = "karpenter.sh/discovery"

// sharedTag is the prefix of the tag with which clusters declare that they share a subnet.
const sharedTag = "kubernetes.io/cluster/"

// selectable is a subnet or a security group.
type selectable struct {
	what, id, name, vpc string
	tags                map[string]string
}

func (n Network) selectables() []selectable {
	var all []selectable
	for _, s := range n.Subnets {
		all = append(all, selectable{what: "subnet", id: s.ID, vpc: s.VPC, tags: s.Tags})
	}
	for _, g := range n.Groups {
		all = append(all, selectable{what: "security group", id: g.ID, name: g.Name, vpc: g.VPC, tags: g.Tags})
	}
	slices.SortFunc(all, func(a, b selectable) int { return cmp.Compare(a.id, b.id) })
	return all
}

// discovery returns the discovery tags that match two clusters, and what EC2NodeClasses of two clusters select.
func discovery(o Observed) (found []Finding) {
	for _, n := range o.Networks {
		at := place{n.Account, n.Region}
		clusters := slices.DeleteFunc(slices.Clone(o.Clusters), func(c Cluster) bool { return c.place() != at })
		found = append(found, n.tagged(clusters)...)
		for _, s := range n.selectables() {
			found = append(found, n.selected(s, clusters)...)
		}
	}
	return found
}

// tagged returns the values of the discovery tag on what belongs to different clusters.
func (n Network) tagged(clusters []Cluster) (found []Finding) {
	// owned has an example of what each cluster owns, by value of the tag.
	owned := map[string]map[string]selectable{}
	for _, s := range n.selectables() {
		value, owner := s.tags[discoveryTag], s.owner(clusters)
		if value == "" || owner == "" {
			continue
		}
		if owned[value] == nil {
			owned[value] = map[string]selectable{}
		}
		if _, has := owned[value][owner]; !has {
			owned[value][owner] = s
		}
	}
	for _, value := range slices.Sorted(maps.Keys(owned)) {
		owners := slices.Sorted(maps.Keys(owned[value]))
		if len(owners) < 2 {
			continue
		}
		var texts []string
		for _, owner := range owners {
			s := owned[value][owner]
			texts = append(texts, fmt.Sprintf("%s %s of cluster %s", s.what, s.id, owner))
		}
		found = append(found, Finding{
			Kind: Discovery, Account: n.Account, Region: n.Region, Clusters: owners,
			Message: fmt.Sprintf("the tag %s=%s matches %s: nodes are launched with what belongs to another cluster", discoveryTag, value,
				strings.Join(texts, " and ")),
			Fix: fmt.Sprintf("give each cluster's subnets and security groups a value of their own: "+
				"aws ec2 create-tags --region %s --resources ID --tags Key=%s,Value=CLUSTER", n.Region, discoveryTag),
		})
	}
	return found
}

// owner returns the cluster to which something belongs, by its tags, or because no other cluster is in its VPC; empty if that
// is unclear.
func (s selectable) owner(clusters []Cluster) string {
	if owner := cloud.OwnedBy(s.tags, ""); owner != "" {
		return owner
	}
	owner := ""
	for _, c := range clusters {
		switch {
		case c.VPC == "" || c.VPC != s.vpc:
		case owner != "":
			return ""
		default:
			owner = c.Name
		}
	}
	return owner
}

// selected returns a finding if EC2NodeClasses of two clusters select something that they do not declare as shared.
func (n Network) selected(s selectable, clusters []Cluster) []Finding {
	var by []use
	for _, c := range clusters {
		for i := range c.Classes {
			class := &c.Classes[i]
			var selects bool
			if s.what == "subnet" {
				for _, t := range class.Spec.SubnetSelectorTerms {
					selects = selects || s.matches(t.ID, "", t.Tags)
				}
			} else {
				for _, t := range class.Spec.SecurityGroupSelectorTerms {
					selects = selects || s.matches(t.ID, t.Name, t.Tags)
				}
			}
			if selects {
				by = append(by, use{c, "EC2NodeClass/" + class.Name})
				break
			}
		}
	}
	names, list := clustersOf(by)
	if len(names) < 2 || s.what == "subnet" && s.shared(names) {
		return nil
	}
	fix := "select only what belongs to the cluster"
	if s.what == "subnet" {
		fix += fmt.Sprintf(", or declare the subnet as shared: aws ec2 create-tags --region %s --resources %s --tags", n.Region, s.id)
		for _, name := range names {
			fix += fmt.Sprintf(" Key=%s%s,Value=shared", sharedTag, name)
		}
	}
	return []Finding{{
		Kind: Discovery, Account: n.Account, Region: n.Region, Clusters: names,
		Message: fmt.Sprintf("%s %s is selected by %s", s.what, s.id, list), Fix: fix,
	}}
}

// shared reports whether each of these clusters has a tag on it.
func (s selectable) shared(clusters []string) bool {
	return !slices.ContainsFunc(clusters, func(name string) bool { return s.tags[sharedTag+name] == "" })
}

// matches reports whether a selector term matches: all that it names, with EC2's wildcards.
// https://karpenter.sh/docs/concepts/nodeclasses/#specsubnetselectorterms
func (s selectable) matches(id, name string, tags map[string]string) bool {
	if id == "" && name == "" && len(tags) == 0 || id != "" && id != s.id || name != "" && !wildcard(name, s.name) {
		return false
	}
	for key, want := range tags {
		value, has := s.tags[key]
		if !has || want != "" && !wildcard(want, value) {
			return false
		}
	}
	return true
}

// wildcards of a filter of EC2: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
var wildcards = strings.NewReplacer(`\*`, `.*`, `\?`, `.`)

func wildcard(pattern, text string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	matches, err := regexp.MatchString("^(?s:"+wildcards.Replace(regexp.QuoteMeta(pattern))+")$", text)
	return err == nil && matches
}
