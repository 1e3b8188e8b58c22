package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// AWS is what a Reader queries.
type AWS interface {
	Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]resolve.Image, error)
}

// Reader queries AWS for the AMIs of EC2NodeClasses.
type Reader struct {
	AWS AWS
	// Kubernetes is the version of the cluster, such as 1.36.
	Kubernetes string
	// Wait returns at a time, or when the context is done: queries have a budget, which leaves Karpenter enough of EC2's.
	Wait func(ctx context.Context, until time.Time) error
	Now  func() time.Time
}

// Class compares an EC2NodeClass, with the NodePools that name it, with what AWS publishes.
func (r *Reader) Class(ctx context.Context, class *awsv1.EC2NodeClass, pools []*karpv1.NodePool) Class {
	return r.compare(ctx, class, pools, true)
}

// Selected is like Class, without NodePools and without what is newer.
func (r *Reader) Selected(ctx context.Context, class *awsv1.EC2NodeClass) Class {
	return r.compare(ctx, class, nil, false)
}

// compare queries AWS for what an EC2NodeClass selects, and, with withNewest, for what is newer.
func (r *Reader) compare(ctx context.Context, class *awsv1.EC2NodeClass, pools []*karpv1.NodePool, withNewest bool) Class {
	if _, _, ok := aliasOf(class); !ok && hasAlias(class) {
		c := Compare(class, pools, Answers{}, r.Now())
		c.Problem = fmt.Sprintf("alias %s of EC2NodeClass/%s is malformed: FAMILY@VERSION, with one of %s", c.Selects, c.Name, strings.Join(Families, ", "))
		return c
	}
	found, err := r.patiently(ctx, class)
	var empty *resolve.EmptyError
	var unsupported *resolve.UnsupportedError
	switch {
	case errors.As(err, &empty) || errors.As(err, &unsupported):
		c := Compare(class, pools, Answers{Kubernetes: r.Kubernetes}, r.Now())
		c.Problem = err.Error()
		return c
	case err != nil:
		return Unread(class, pools, err, r.Now())
	}
	answers := Answers{Kubernetes: r.Kubernetes, Now: found}
	if _, version, isAlias := aliasOf(class); !withNewest || isAlias && version == Latest {
		return Compare(class, pools, answers, r.Now())
	}
	for _, family := range familiesOf(found) {
		newest, err := r.Newest(ctx, family)
		answers.Newest = append(answers.Newest, newest...)
		answers.NewestErr = errors.Join(answers.NewestErr, err)
	}
	return Compare(class, pools, answers, r.Now())
}

func hasAlias(class *awsv1.EC2NodeClass) bool {
	return slices.ContainsFunc(class.Spec.AMISelectorTerms, func(t awsv1.AMISelectorTerm) bool { return t.Alias != "" })
}

// Newest returns the AMIs that AWS publishes last for a family, such as al2023, and the Kubernetes version of the cluster.
func (r *Reader) Newest(ctx context.Context, family string) ([]resolve.Image, error) {
	return r.patiently(ctx, &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "newest"},
		Spec:       awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: family + "@" + Latest}}},
	})
}

// Pin returns the alias that pins the newest release of a family, such as al2023@v20251103; empty if the family has none.
func (r *Reader) Pin(ctx context.Context, family string) (string, error) {
	newest, err := r.Newest(ctx, family)
	return pin(family, newest), err
}

// patiently queries AWS, and waits while the budget is used up.
func (r *Reader) patiently(ctx context.Context, class *awsv1.EC2NodeClass) ([]resolve.Image, error) {
	for {
		found, err := r.AWS.Images(ctx, class, r.Kubernetes)
		var busy *resolve.BusyError
		if !errors.As(err, &busy) || r.Wait == nil {
			return found, err
		}
		if err := r.Wait(ctx, busy.Again); err != nil {
			return nil, err
		}
	}
}

// familiesOf returns the families of AMIs that AWS publishes, each once.
func familiesOf(found []resolve.Image) (families []string) {
	for _, i := range found {
		if r, ok := ReleaseOf(i.Name); ok && !slices.Contains(families, r.Family) && slices.Contains(Families, r.Family) {
			families = append(families, r.Family)
		}
	}
	return families
}
