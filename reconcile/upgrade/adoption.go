package upgrade

import (
	"errors"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/render"
)

// Adoption is what other tools have installed of Karpenter, and what plumbline.yaml must contain so that plumbline
// adopts it.
type Adoption struct {
	survey.Found `json:",inline"`
	// Runs is the version of the existing controller. Git is the version in plumbline.yaml, now or after the change.
	Runs string `json:"runs,omitempty"`
	Git  string `json:"version"`
	// ValuesNotInGit are values of the release that plumbline.yaml does not contain, or sets differently, by their
	// paths.
	ValuesNotInGit []string `json:"valuesNotInGit,omitempty"`
	// Set is what plumbline.yaml must contain; nil if it already does.
	Set *AdoptionFields `json:"set,omitempty"`
	// Refused is why it is not adopted; empty if it can be.
	Refused string `json:"refused,omitempty"`
}

// AdoptionFields are the fields of plumbline.yaml that an adoption needs.
type AdoptionFields struct {
	Adopt     bool   `json:"adopt"`
	Namespace string `json:"namespace,omitempty"`
	Version   string `json:"version,omitempty"`
}

// Asked reports whether plumbline.yaml requests the adoption, and nothing prevents it.
func (a *Adoption) Asked() bool { return a.Refused == "" && a.Set == nil }

// String returns the lines of plumbline.yaml.
func (f *AdoptionFields) String() string {
	text := "adopt: true\n"
	if f.Namespace != "" {
		text += "namespace: " + f.Namespace + "\n"
	}
	if f.Version != "" {
		text += "version: " + f.Version + "\n"
	}
	return text
}

// Adopt decides what plumbline.yaml must contain so that plumbline adopts Karpenter, with the namespace and the version
// of the running controller. look surveys a cluster with the namespace that plumbline.yaml names.
func Adopt(git *render.Karpenter, look func(namespace string) (survey.Found, error)) (*Adoption, error) {
	set := AdoptionFields{Adopt: true}
	namespace, version := git.Namespace, git.Version
	found, err := look(namespace)
	if err != nil {
		return nil, err
	}
	refusal := found.Check(namespace, version, true)
	if elsewhere := (*survey.ElsewhereError)(nil); errors.As(refusal, &elsewhere) && elsewhere.Namespace != "" {
		namespace, set.Namespace = elsewhere.Namespace, elsewhere.Namespace
		if found, err = look(namespace); err != nil {
			return nil, err
		}
		refusal = found.Check(namespace, version, true)
	}
	runs := found.Version(namespace)
	newer := (*survey.NewerError)(nil)
	if errors.As(refusal, &newer) || refusal == nil && runs != "" && karpenter.CheckHop(runs, version) != nil {
		version, set.Version = runs, runs
		refusal = found.Check(namespace, version, true)
	}
	adoption := &Adoption{Found: found, Runs: runs, Git: version}
	if release, ok := found.Release(charts.ControllerChart, namespace); ok {
		adoption.ValuesNotInGit = release.ValuesNotIn(git.Values)
	}
	switch {
	case refusal != nil:
		adoption.Refused = refusal.Error()
	case !found.Empty() && (!git.Adopt || set != AdoptionFields{Adopt: true}):
		adoption.Set = &set
	}
	return adoption, nil
}
