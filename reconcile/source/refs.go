package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// refs are the references that a host advertises.
type refs struct {
	tips   map[string]plumbing.Hash // by full name
	peeled map[string]plumbing.Hash // for annotated tags: the commit that they point to
}

// target is what to fetch.
type target struct {
	// label of the revision: main, v1.2.3, refs/pull/1/head; "" for a commit.
	label string
	// want is the object to request: the commit, or the tag that points to it.
	want plumbing.Hash
	// commit is the commit that want resolves to.
	commit plumbing.Hash
	// tag is the name of the tag, without refs/tags/; empty if the reference is not a tag.
	tag string
	// history is true if commit is not the tip of any advertised reference: it must then be searched for below want.
	history bool
}

// annotated reports whether the reference is an annotated tag.
func (t target) annotated() bool { return t.tag != "" && t.want != t.commit }

// revision returns the revision in Flux's form: main@sha1:<commit>, or sha1:<commit>.
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

// resolve finds the target of a GitRef among the references of a host. If several fields are set, the first of commit,
// name, semver, tag and branch applies. The error is a *NotFoundError or a *RefError.
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

// resolveCommit requests the commit by its hash. If a branch is set too, the commit is searched for there if the host
// does not serve commits by hash.
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

// below returns the branch in which to search for a commit.
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

// highest returns the tag with the highest version in a range.
func (r refs) highest(within, url string) (target, error) {
	found, err := newestIn(within)
	if err != nil {
		return target{}, err
	}
	for full := range r.tips {
		if tag, ok := strings.CutPrefix(full, tags); ok {
			found.add(tag)
		}
	}
	if found.version == nil {
		return target{}, &NotFoundError{URL: url, What: "tag in the range " + within}
	}
	return r.named(tags+found.tag, found.tag, "tag "+found.tag, url)
}

// newest is the tag with the highest version in a range, among those passed to take. As in Flux, a version is complete
// (1.2.3) and may start with v.
type newest struct {
	within  *semver.Constraints
	version *semver.Version // nil until there is one
	tag     string
}

// newestIn returns the newest of a range. The error is a *RefError.
func newestIn(within string) (*newest, error) {
	constraint, err := semver.NewConstraint(within)
	if err != nil {
		return nil, &RefError{Field: "semver", Value: within, Err: err}
	}
	return &newest{within: constraint}, nil
}

// add records a tag if it is the newest so far, and reports whether it is.
func (n *newest) add(tag string) bool {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	if err != nil || !n.within.Check(v) {
		return false // not a version, or not in the range
	}
	if n.version != nil && !v.GreaterThan(n.version) && (!v.Equal(n.version) || tag <= n.tag) {
		return false
	}
	n.version, n.tag = v, tag
	return true
}

// line connects to a host, and counts the bytes received from it.
type line struct {
	dir      string // for a file that a library must read
	received atomic.Int64
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, received: &l.received}, nil
}

// metered is a connection that counts the bytes it reads.
type metered struct {
	net.Conn
	received *atomic.Int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.received.Add(int64(n))
	return n, err
}

const (
	// pktHeader is the length of a pkt-line, in hexadecimal digits.
	pktHeader = 4
	// peeledMark is the suffix of a tag's name on the line that lists the tag's target.
	peeledMark = "^{}"
)

// advertisement filters a host's list of references to those that are needed to resolve a GitRef, because go-git keeps
// every line that it reads and a repository may have 500,000. The first reference always passes, because it carries the
// host's capabilities. https://git-scm.com/docs/gitprotocol-pack#_reference_discovery
type advertisement struct {
	r      io.Reader
	wanted selection
	// pending has been read but not passed on yet.
	pending []byte
	buffer  []byte
	// begun reports whether the first reference was passed on.
	begun bool
	// raw reports whether the rest is not a list of references; go-git then reports the error.
	raw bool
	err error
}

// onlyWanted returns the list in r without the references that are not needed: those for ref, and the records. It does
// not read past the list.
func onlyWanted(r io.Reader, ref v1alpha1.GitRef, records []string) io.Reader {
	wanted := selectionOf(ref)
	for _, name := range records {
		wanted.names[name] = true
	}
	return &advertisement{r: r, wanted: wanted}
}

// Read implements io.Reader.
func (a *advertisement) Read(p []byte) (int, error) {
	for len(a.pending) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.raw {
			return a.r.Read(p)
		}
		a.next()
	}
	n := copy(p, a.pending)
	a.pending = a.pending[n:]
	return n, nil
}

// next reads a pkt-line, and passes it on if it is needed.
func (a *advertisement) next() {
	if cap(a.buffer) == 0 {
		a.buffer = make([]byte, pktHeader+pktline.OversizePayloadMax)
	}
	header := a.buffer[:pktHeader]
	if n, err := io.ReadFull(a.r, header); err != nil {
		a.fail(header[:n], err)
		return
	}
	size, err := strconv.ParseUint(string(header), 16, 16)
	switch {
	case err == nil && size == 0 && a.begun:
		a.pending, a.raw = append(a.wanted.held(), header...), true
		return
	case err == nil && size == 0:
		a.pending = header // a flush after the service announcement
		return
	case err != nil || size <= pktHeader || int(size) > cap(a.buffer):
		a.pending, a.raw = header, true
		return
	}
	line := a.buffer[:size]
	if n, err := io.ReadFull(a.r, line[pktHeader:]); err != nil {
		a.fail(line[:pktHeader+n], err)
		return
	}
	if a.passes(line) {
		a.pending = line
	}
}

// fail passes on what was read of an incomplete line.
func (a *advertisement) fail(read []byte, err error) {
	a.pending, a.err = read, err
	if errors.Is(err, io.ErrUnexpectedEOF) {
		a.err = io.EOF
	}
}

// passes reports whether a line is passed on. A line that is not a reference passes, so that go-git rejects it.
func (a *advertisement) passes(line []byte) bool {
	payload := bytes.TrimSuffix(line[pktHeader:], []byte("\n"))
	if !a.begun {
		if a.begun = !bytes.HasPrefix(payload, []byte("#")); a.begun {
			a.wanted.first(payload)
		}
		return true
	}
	hash, name, isReference := bytes.Cut(payload, []byte(" "))
	switch {
	case !isReference || bytes.Contains(name, []byte(" ")) || bytes.HasPrefix(payload, []byte("ERR ")):
		return true
	case string(hash) == "shallow":
		return false // the boundary of the host's own shallow history: plumbline does not need it
	}
	return a.wanted.passesNow(hash, name, line)
}

// selection is the part of a host's references that a GitRef needs.
type selection struct {
	// names are full names, and include the peeled names of annotated tags.
	names map[string]bool
	// commit is searched for among the tips until it is found.
	commit []byte
	// newest is the tag with the highest version so far, if the GitRef has a range. Its lines are kept until the list
	// is complete.
	newest *newest
	lines  []byte
}

func selectionOf(ref v1alpha1.GitRef) selection {
	s := selection{names: map[string]bool{}}
	needs := func(names ...string) {
		for _, name := range names {
			s.names[name], s.names[name+peeledMark] = true, true
		}
	}
	switch {
	case ref.Commit != "":
		s.commit = []byte(ref.Commit)
		needs("HEAD", branches+v1alpha1.DefaultBranch, branches+ref.Branch)
	case ref.Name != "":
		needs(ref.Name)
	case ref.SemVer != "":
		if found, err := newestIn(ref.SemVer); err == nil { // resolve reports the error
			s.newest = found
		}
	case ref.Tag != "":
		needs(tags + ref.Tag)
	case ref.Branch != "":
		needs(branches + ref.Branch)
	default:
		needs(branches + v1alpha1.DefaultBranch)
	}
	return s
}

// first records the first reference, which is always passed on with the host's capabilities.
func (s *selection) first(payload []byte) {
	reference, _, _ := strings.Cut(string(payload), "\x00")
	_, name, _ := strings.Cut(reference, " ")
	if tag, ok := strings.CutPrefix(name, tags); ok && s.newest != nil {
		s.newest.add(tag)
	}
}

// passesNow reports whether a line is passed on immediately.
func (s *selection) passesNow(hash, name, line []byte) bool {
	if len(s.commit) > 0 && bytes.EqualFold(hash, s.commit) && !bytes.HasSuffix(name, []byte(peeledMark)) {
		s.commit = nil // one reference to it is enough
		return true
	}
	if s.newest != nil && bytes.HasPrefix(name, []byte(tags)) {
		tag := string(name[len(tags):])
		switch {
		case s.newest.add(tag):
			s.lines = append(s.lines[:0], line...)
		case tag == s.newest.tag+peeledMark:
			s.lines = append(s.lines, line...)
		}
		return false
	}
	return s.names[string(name)]
}

// held returns the lines that were kept until the list is complete.
func (s *selection) held() []byte { return s.lines }
