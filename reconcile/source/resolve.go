package source

import (
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// refs is what a host says it has.
type refs struct {
	tips   map[string]plumbing.Hash // by full name
	peeled map[string]plumbing.Hash // annotated tags: the commit they name
}

// target is what to fetch.
type target struct {
	// label of the revision: main, v1.2.3, refs/pull/1/head; "" for a commit.
	label string
	// want is the object to ask for: the commit, or the tag that names it.
	want plumbing.Hash
	// commit is what want comes to.
	commit plumbing.Hash
	// tag is the name of a tag, without refs/tags/; empty where it is none.
	tag string
	// history is true where commit is not the tip of anything that the host
	// shows: then it has to be looked for below want.
	history bool
}

// annotated is whether the reference is a tag that is an object of its own.
func (t target) annotated() bool { return t.tag != "" && t.want != t.commit }

// revision in Flux's form: main@sha1:<commit>, or sha1:<commit>.
func (t target) revision() string {
	if t.label == "" {
		return "sha1:" + t.commit.String()
	}
	return t.label + "@sha1:" + t.commit.String()
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// resolve finds what a GitRef means among the refs of a host. Of several
// fields the first of commit, name, semver, tag and branch counts. The error is
// a *NotFoundError or a *RefError.
func resolve(ref v1alpha1.GitRef, has refs, url string) (target, error) {
	switch {
	case ref.Commit != "":
		return resolveCommit(ref, has, url)
	case ref.Name != "":
		return has.named(ref.Name, ref.Name, "reference "+ref.Name, url)
	case ref.SemVer != "":
		return has.highest(ref.SemVer, url)
	case ref.Tag != "":
		return has.named(tags+ref.Tag, ref.Tag, "tag "+ref.Tag, url)
	case ref.Branch != "":
		return has.named(branches+ref.Branch, ref.Branch, "branch "+ref.Branch, url)
	}
	return has.named(branches+v1alpha1.DefaultBranch, v1alpha1.DefaultBranch, "branch "+v1alpha1.DefaultBranch, url)
}

func (r refs) named(full, label, what, url string) (target, error) {
	tip, ok := r.tips[full]
	if !ok {
		return target{}, &NotFoundError{URL: url, What: what}
	}
	t := target{label: label, want: tip, commit: tip}
	t.tag, _ = strings.CutPrefix(full, tags)
	if t.tag == full {
		t.tag = ""
	}
	if commit, ok := r.peeled[full]; ok {
		t.commit = commit
	}
	return t, nil
}

// resolveCommit asks for the commit by its hash. A branch beside it is where
// the commit is looked for when the host does not give out commits by hash.
func resolveCommit(ref v1alpha1.GitRef, has refs, url string) (target, error) {
	if !plumbing.IsHash(ref.Commit) {
		return target{}, &RefError{Field: "commit", Value: ref.Commit, Err: fmt.Errorf("a full SHA-1 of 40 digits is wanted")}
	}
	commit := plumbing.NewHash(ref.Commit)
	t := target{label: ref.Branch, want: commit, commit: commit}
	for _, tip := range has.tips {
		if tip == commit {
			return t, nil
		}
	}
	t.history = true
	return t, nil
}

// below is the branch to search for a commit in.
func (r refs) below(ref v1alpha1.GitRef, url string) (plumbing.Hash, error) {
	if ref.Branch != "" {
		t, err := r.named(branches+ref.Branch, ref.Branch, "branch "+ref.Branch, url)
		return t.want, err
	}
	for _, name := range []string{"HEAD", branches + v1alpha1.DefaultBranch} {
		if tip, ok := r.tips[name]; ok {
			return tip, nil
		}
	}
	return plumbing.ZeroHash, &NotFoundError{URL: url, What: "commit " + ref.Commit}
}

// highest is the tag with the highest version in a range.
func (r refs) highest(within, url string) (target, error) {
	found, err := newestIn(within)
	if err != nil {
		return target{}, err
	}
	for full := range r.tips {
		if tag, ok := strings.CutPrefix(full, tags); ok {
			found.take(tag)
		}
	}
	if found.version == nil {
		return target{}, &NotFoundError{URL: url, What: "tag in the range " + within}
	}
	return r.named(tags+found.tag, found.tag, "tag "+found.tag, url)
}
