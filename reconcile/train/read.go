package train

import (
	"context"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/render"
)

// Classes returns the EC2NodeClasses of a Set. It leaves out those that cannot be read.
func Classes(set *render.Set) (classes []*awsv1.EC2NodeClass) {
	for i := range set.Objects {
		class := &awsv1.EC2NodeClass{}
		if object := &set.Objects[i]; object.Ref.Kind == render.EC2NodeClass &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(object.Desired.Object, class) == nil {
			classes = append(classes, class)
		}
	}
	return classes
}

// reading queries AWS.
type reading struct {
	aws        images.PublishedAWS
	kubernetes string
	now        time.Time
}

func (r reading) reader() *images.Reader {
	return &images.Reader{AWS: r.aws, Kubernetes: r.kubernetes, Now: func() time.Time { return r.now }}
}

// aliases queries AWS for what the aliases of EC2NodeClasses select, and what is published.
func (r reading) aliases(ctx context.Context, classes []*awsv1.EC2NodeClass) (found []Alias) {
	for _, class := range classes {
		name := images.AliasOf(class)
		if name == "" {
			continue
		}
		if i := slices.IndexFunc(found, func(a Alias) bool { return a.Name == name }); i >= 0 {
			found[i].Classes = append(found[i].Classes, class.Name)
			continue
		}
		found = append(found, r.alias(ctx, class, name))
	}
	return found
}

// alias queries AWS for one alias.
func (r reading) alias(ctx context.Context, class *awsv1.EC2NodeClass, name string) Alias {
	a := Alias{Name: name, Classes: []string{class.Name}}
	c := r.reader().Selected(ctx, class)
	a.Pin, a.Withdrawn, a.Unknown = c.Pin, c.Problem != "", c.Unknown
	for i := range c.Images {
		image := &c.Images[i]
		a.Deprecated = a.Deprecated || image.Deprecated
		if image.Published != nil && a.Published.Before(*image.Published) {
			a.Published = *image.Published
		}
	}
	if a.Unknown != "" || a.isLatest() {
		return a
	}
	releases, err := r.reader().Publications(ctx, r.aws, name, c.Images)
	if err != nil {
		a.Unknown = "what is newer: " + err.Error()
	}
	a.Releases = releases
	return a
}

// maxUnresolved limits how many releases are tried.
const maxUnresolved = 3

// wanted returns what there should be. A release that Karpenter cannot find by its alias is left out: AWS has withdrawn it,
// or has not published all of it yet.
func (r reading) wanted(ctx context.Context, spec Spec, aliases []Alias) Want {
	want := Wanted(spec, aliases, r.now)
	for range maxUnresolved {
		left := false
		for _, p := range want.Proposals {
			if p.Pins {
				continue
			}
			for _, replace := range p.Replace {
				resolves, err := r.reader().Resolves(ctx, replace.To)
				switch {
				case err != nil:
					unknown(aliases, replace.From, err)
					left = true
				case !resolves:
					without(aliases, replace.From, replace.To)
					left = true
				}
			}
		}
		if !left {
			break
		}
		want = Wanted(spec, aliases, r.now)
	}
	return want
}

// unknown records that AWS did not answer about an alias.
func unknown(aliases []Alias, name string, err error) {
	for i := range aliases {
		if aliases[i].Name == name {
			aliases[i].Unknown = "what is newer: " + err.Error()
		}
	}
}

// without removes a release of an alias.
func without(aliases []Alias, name, release string) {
	for i := range aliases {
		if a := &aliases[i]; a.Name == name {
			a.Releases = slices.DeleteFunc(slices.Clone(a.Releases), func(p images.Publication) bool { return p.Alias == release })
		}
	}
}
