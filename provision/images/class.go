package images

import (
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// Latest is the version of an alias that is not pinned.
const Latest = "latest"

// Class is the comparison of an EC2NodeClass with what AWS publishes.
type Class struct {
	Name string `json:"name"`
	// Selects are its terms in short: al2023@v20251103, or the fields that they have.
	Selects string `json:"selects"`
	// Pin is the pinned form of an alias @latest; empty for other terms, and if it is unknown.
	Pin    string  `json:"pin,omitempty"`
	Images []Image `json:"images"`
	Pools  []Pool  `json:"nodePools"`
	// Problem is why it launches no node, Unknown what could not be read and why, and Notes are what else to know.
	Problem string   `json:"problem,omitempty"`
	Unknown string   `json:"unknown,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Pool is a NodePool with the AMIs that its nodes may run.
type Pool struct {
	Name   string   `json:"name"`
	Images []string `json:"images"`
}

// Image is an AMI that an EC2NodeClass selects now. If AWS was not queried, it has no ID.
type Image struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	Arch string `json:"architecture,omitempty"`
	// Variant and Version are known for AMIs that AWS publishes for EKS.
	Variant string `json:"variant,omitempty"`
	Version string `json:"version,omitempty"`
	// Published is when it was made; nil if that is unknown. AgeDays counts whole days since then.
	Published  *time.Time `json:"published,omitempty"`
	AgeDays    int        `json:"ageDays,omitempty"`
	Deprecated bool       `json:"deprecated"`
	Newer      *Newer     `json:"newer,omitempty"`
}

// Newer is the newest AMI of the same family, architecture and variant for the Kubernetes version of the cluster.
type Newer struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Published time.Time `json:"published"`
	// Alias pins it, and ReleaseNotes is an address; empty if there is none.
	Alias        string `json:"alias,omitempty"`
	ReleaseNotes string `json:"releaseNotes,omitempty"`
}

// Outdated reports whether something is newer than what the class selects, or is wrong with it.
func (c Class) Outdated() bool {
	return c.Problem != "" || slices.ContainsFunc(c.Images, func(i Image) bool { return i.Deprecated || i.Newer != nil })
}

// Answers are what AWS answered about an EC2NodeClass.
type Answers struct {
	// Kubernetes is the version of the cluster, such as 1.36.
	Kubernetes string
	// Now are the AMIs that its terms resolve to.
	Now []resolve.Image
	// Newest are those that the newest aliases of the families of Now resolve to; NewestErr is why they are not complete.
	Newest    []resolve.Image
	NewestErr error
}

// Compare compares an EC2NodeClass, with the NodePools that name it, with what AWS has answered.
func Compare(class *awsv1.EC2NodeClass, pools []*karpv1.NodePool, a Answers, now time.Time) Class {
	c := Class{Name: class.Name, Selects: Selects(class), Images: []Image{}, Pools: []Pool{}}
	newest := map[Release]resolve.Image{}
	for _, n := range a.Newest {
		if r, ok := ReleaseOf(n.Name); ok {
			newest[r.line()] = n
		}
	}
	for _, found := range a.Now {
		if slices.ContainsFunc(c.Images, func(i Image) bool { return i.ID == found.ID }) {
			continue // one AMI may be for several kinds of nodes
		}
		c.add(found, newest, a.Kubernetes, now)
	}
	for _, pool := range pools {
		c.Pools = append(c.Pools, Pool{Name: pool.Name, Images: runs(pool, a.Now)})
	}
	family, version, isAlias := aliasOf(class)
	if isAlias && version == Latest {
		c.Pin = pin(family, a.Now)
		c.Notes = append(c.Notes, "the alias is not pinned: each release of AWS replaces the nodes")
	}
	if a.NewestErr != nil {
		c.Unknown = "what is newer: " + a.NewestErr.Error()
	}
	return c
}

// line returns what releases have in common that replace each other.
func (r Release) line() Release { return Release{Family: r.Family, Arch: r.Arch, Variant: r.Variant} }

// add adds an AMI.
func (c *Class) add(found resolve.Image, newest map[Release]resolve.Image, kubernetes string, now time.Time) {
	i := Image{ID: found.ID, Name: found.Name, Arch: archOf(found.Requirements), Deprecated: found.Deprecated}
	if !found.Created.IsZero() {
		published := found.Created.UTC()
		i.Published, i.AgeDays = &published, days(now.Sub(published))
	}
	r, known := ReleaseOf(found.Name)
	if !known {
		c.note(fmt.Sprintf("AMI %s (%s) is not one that AWS publishes for EKS: what is newer is unknown", found.ID, found.Name))
		c.Images = append(c.Images, i)
		return
	}
	i.Variant, i.Version = r.Variant, r.Version
	if kubernetes != "" && r.Kubernetes != kubernetes {
		c.note(fmt.Sprintf("AMI %s is made for Kubernetes %s, and the cluster has %s", found.ID, r.Kubernetes, kubernetes))
	}
	if n, ok := newest[r.line()]; ok && n.ID != found.ID && n.Created.After(found.Created) {
		release, _ := ReleaseOf(n.Name)
		i.Newer = &Newer{ID: n.ID, Name: n.Name, Published: n.Created.UTC(), Alias: release.Alias(), ReleaseNotes: release.Notes()}
	}
	c.Images = append(c.Images, i)
}

func (c *Class) note(text string) { c.Notes = append(c.Notes, text) }

// Unread returns what is known about an EC2NodeClass without AWS: an alias of AL2023 has a date.
func Unread(class *awsv1.EC2NodeClass, pools []*karpv1.NodePool, why error, now time.Time) Class {
	c := Class{
		Name: class.Name, Selects: Selects(class), Images: []Image{}, Pools: []Pool{},
		Unknown: "which AMIs it resolves to, whether they are deprecated, and what is newer: " + why.Error(),
	}
	for _, pool := range pools {
		c.Pools = append(c.Pools, Pool{Name: pool.Name, Images: []string{}})
	}
	_, version, isAlias := aliasOf(class)
	if day, dated := Date(version); isAlias && dated {
		c.Images = append(c.Images, Image{Version: version, Published: &day, AgeDays: days(now.Sub(day))})
	}
	if version == Latest {
		c.note("the alias is not pinned: each release of AWS replaces the nodes")
	}
	return c
}

// days returns the whole days of a duration.
func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

// aliasOf returns the parts of the alias of an EC2NodeClass. Unlike Karpenter's own function, which exits the program, it
// accepts a malformed one: ok is then false.
func aliasOf(class *awsv1.EC2NodeClass) (family, version string, ok bool) {
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias != "" {
			family, version, ok = strings.Cut(term.Alias, "@")
			return family, version, ok && slices.Contains(Families, family) && !strings.Contains(version, "@")
		}
	}
	return "", "", false
}

// Families are those of aliases (pkg/apis/v1/ec2nodeclass.go in karpenter-provider-aws, 1.15.0, AMISelectorTerm).
var Families = []string{"al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"}

// Selects returns the terms of an EC2NodeClass in short: its alias, or which fields the terms have.
func Selects(class *awsv1.EC2NodeClass) string {
	var words []string
	for _, term := range class.Spec.AMISelectorTerms {
		word := "tags"
		switch {
		case term.Alias != "":
			word = term.Alias
		case term.ID != "":
			word = term.ID
		case term.SSMParameter != "":
			word = "ssmParameter " + term.SSMParameter
		case term.Name != "":
			word = "name " + term.Name
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// pin returns the alias of a family that pins what it resolves to; empty if the AMIs have several versions, or none that an
// alias can have.
func pin(family string, now []resolve.Image) (alias string) {
	for _, i := range now {
		r, ok := ReleaseOf(i.Name)
		if !ok || r.Family != family || r.Alias() == "" || alias != "" && alias != r.Alias() {
			return ""
		}
		alias = r.Alias()
	}
	return alias
}

// runs returns the IDs of the AMIs that nodes of a NodePool may run: those whose requirements its own do not exclude.
func runs(pool *karpv1.NodePool, now []resolve.Image) []string {
	allowed := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	allowed.Add(scheduling.NewLabelRequirements(pool.Spec.Template.Labels).Values()...)
	found := []string{}
	for _, i := range now {
		of := scheduling.NewNodeSelectorRequirements(i.Requirements...)
		if allowed.Compatible(of, scheduling.AllowUndefinedWellKnownLabels) == nil && !slices.Contains(found, i.ID) {
			found = append(found, i.ID)
		}
	}
	return found
}

func archOf(requirements []corev1.NodeSelectorRequirement) string {
	for _, r := range requirements {
		if r.Key == corev1.LabelArchStable && r.Operator == corev1.NodeSelectorOpIn {
			return strings.Join(r.Values, ",")
		}
	}
	return ""
}
