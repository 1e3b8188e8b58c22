package images

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

var today = time.Date(2025, 12, 1, 12, 0, 0, 0, time.UTC)

func ami(id, arch, variant, version string) resolve.Image {
	created, _ := Date(version)
	aws := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[arch]
	i := resolve.Image{
		ID: id, Name: "amazon-eks-node-al2023-" + aws + "-" + variant + "-1.36-" + version, Created: created,
		Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}},
	}
	gpus := corev1.NodeSelectorOpDoesNotExist
	if variant == "nvidia" {
		gpus = corev1.NodeSelectorOpExists
	}
	i.Requirements = append(i.Requirements, corev1.NodeSelectorRequirement{Key: awsv1.LabelInstanceGPUCount, Operator: gpus})
	return i
}

func class(terms ...awsv1.AMISelectorTerm) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: terms}}
}

func alias(of string) awsv1.AMISelectorTerm { return awsv1.AMISelectorTerm{Alias: of} }

func pool(name string, requirements ...corev1.NodeSelectorRequirement) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, r := range requirements {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return p
}

// fakeAWS answers by terms.
type fakeAWS struct {
	images map[string][]resolve.Image
	errs   map[string]error
	// busy is how many queries exceed the budget.
	busy int
}

func (f *fakeAWS) Images(_ context.Context, c *awsv1.EC2NodeClass, _ string) ([]resolve.Image, error) {
	if f.busy > 0 {
		f.busy--
		return nil, &resolve.BusyError{Action: "ssm:GetParameter", Again: today}
	}
	terms := Selects(c)
	if err := f.errs[terms]; err != nil {
		return nil, err
	}
	if len(f.images[terms]) == 0 {
		return nil, &resolve.EmptyError{What: "AMI", Field: "amiSelectorTerms", Class: c.Name}
	}
	return f.images[terms], nil
}

func published() *fakeAWS {
	old := []resolve.Image{ami("ami-1", "amd64", "standard", "v20251002"), ami("ami-2", "arm64", "standard", "v20251002"), ami("ami-3", "amd64", "nvidia", "v20251002")}
	newest := []resolve.Image{ami("ami-11", "amd64", "standard", "v20251103"), ami("ami-12", "arm64", "standard", "v20251103"), ami("ami-13", "amd64", "nvidia", "v20251103")}
	custom := resolve.Image{ID: "ami-9", Name: "acme-golden", Created: today.AddDate(0, 0, -3), Deprecated: true}
	return &fakeAWS{errs: map[string]error{}, images: map[string][]resolve.Image{
		"al2023@v20251002": old, "al2023@v20251103": newest, "al2023@latest": newest, "ami-9": {custom}, "ami-2": {old[1]},
	}}
}

func (f *fakeAWS) reader() *Reader {
	return &Reader{
		AWS: f, Kubernetes: "1.36", Now: func() time.Time { return today },
		Wait: func(context.Context, time.Time) error { return nil },
	}
}

// summary returns the parts of a comparison that a person looks at.
func summary(c Class) string {
	var words []string
	for _, i := range c.Images {
		word := strings.TrimSpace(i.ID + " " + i.Version)
		if i.Newer != nil {
			word += "<" + i.Newer.ID
		}
		if i.Deprecated {
			word += " deprecated"
		}
		words = append(words, word)
	}
	if c.Pin != "" {
		words = append(words, "pin "+c.Pin)
	}
	return strings.Join(words, ", ")
}

// TestClasses checks what is newer than the AMIs of a class, by the form of its terms.
func TestClasses(t *testing.T) {
	for name, c := range map[string]struct {
		terms    []awsv1.AMISelectorTerm
		want     string
		note     string
		outdated bool
	}{
		"pinned":        {terms: []awsv1.AMISelectorTerm{alias("al2023@v20251002")}, want: "ami-1 v20251002<ami-11, ami-2 v20251002<ami-12, ami-3 v20251002<ami-13", outdated: true},
		"newest":        {terms: []awsv1.AMISelectorTerm{alias("al2023@v20251103")}, want: "ami-11 v20251103, ami-12 v20251103, ami-13 v20251103"},
		"latest":        {terms: []awsv1.AMISelectorTerm{alias("al2023@latest")}, want: "ami-11 v20251103, ami-12 v20251103, ami-13 v20251103, pin al2023@v20251103", note: "not pinned"},
		"by ID":         {terms: []awsv1.AMISelectorTerm{{ID: "ami-2"}}, want: "ami-2 v20251002<ami-12", outdated: true},
		"of the user's": {terms: []awsv1.AMISelectorTerm{{ID: "ami-9"}}, want: "ami-9 deprecated", note: "what is newer is unknown", outdated: true},
		"malformed":     {terms: []awsv1.AMISelectorTerm{alias("al2023@v1@v2")}, want: "", outdated: true},
		"withdrawn":     {terms: []awsv1.AMISelectorTerm{alias("al2023@v20250101")}, want: "", outdated: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := published().reader().Class(t.Context(), class(c.terms...), nil)
			if summary(got) != c.want || got.Outdated() != c.outdated || !strings.Contains(strings.Join(got.Notes, "\n"), c.note) {
				t.Errorf("%q, outdated %t, %v, %q; want %q, %t, %q", summary(got), got.Outdated(), got.Notes, got.Problem, c.want, c.outdated, c.note)
			}
		})
	}
}

// TestPools checks that a NodePool has the AMIs that its requirements do not exclude.
func TestPools(t *testing.T) {
	pools := []*karpv1.NodePool{
		pool("any"),
		pool("arm", corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}),
		pool("gpu", corev1.NodeSelectorRequirement{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpGt, Values: []string{"0"}}),
	}
	got := published().reader().Class(t.Context(), class(alias("al2023@v20251103")), pools)
	want := []Pool{{"any", []string{"ami-11", "ami-12", "ami-13"}}, {"arm", []string{"ami-12"}}, {"gpu", []string{"ami-13"}}}
	if diff := cmp.Diff(want, got.Pools); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAges checks ages, dates, and links.
func TestAges(t *testing.T) {
	got := published().reader().Class(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-2"}), nil).Images[0]
	if got.AgeDays != 60 || got.Newer.Alias != "al2023@v20251103" || got.Newer.ReleaseNotes != "https://github.com/awslabs/amazon-eks-ami/releases/tag/v20251103" {
		t.Errorf("%+v, %+v", got, got.Newer)
	}
}

// TestOtherKubernetes checks that an AMI for another Kubernetes version than the cluster's is named.
func TestOtherKubernetes(t *testing.T) {
	r := published().reader()
	r.Kubernetes = "1.37"
	got := r.Class(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-2"}), nil)
	if want := "AMI ami-2 is made for Kubernetes 1.36, and the cluster has 1.37"; len(got.Notes) != 1 || got.Notes[0] != want {
		t.Errorf("%v, want %s", got.Notes, want)
	}
}

// TestUnknown checks that what AWS does not answer is unknown, and never current: an alias keeps the age that its version has.
func TestUnknown(t *testing.T) {
	denied := errors.New("AWS denies ssm:GetParameter")
	aws := published()
	aws.errs["al2023@v20251002"], aws.errs["al2023@latest"] = denied, denied
	got := aws.reader().Class(t.Context(), class(alias("al2023@v20251002")), []*karpv1.NodePool{pool("any")})
	if summary(got) != "v20251002" || got.Images[0].AgeDays != 60 || !strings.Contains(got.Unknown, denied.Error()) || len(got.Pools) != 1 {
		t.Errorf("%+v", got)
	}
	got = aws.reader().Class(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-2"}), nil)
	if summary(got) != "ami-2 v20251002" || !strings.HasPrefix(got.Unknown, "what is newer: ") {
		t.Errorf("%+v", got)
	}
}

// TestBudget checks that queries over the budget are repeated after the wait.
func TestBudget(t *testing.T) {
	aws := published()
	aws.busy = 2
	if pinned, err := aws.reader().Pin(t.Context(), "al2023"); pinned != "al2023@v20251103" || err != nil {
		t.Errorf("%q, %v", pinned, err)
	}
}
