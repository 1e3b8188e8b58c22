package source

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// pktHeader is the length of a pkt-line, in hexadecimal digits.
	pktHeader = 4
	// peeledMark ends the name of a tag where what it names is listed.
	peeledMark = "^{}"
)

// advertisement passes on, of a host's list of references, the lines that a GitRef can be
// resolved by: go-git keeps each line that it reads, and a repository may have 500,000. The
// first reference is passed on in any case, as the host's capabilities are with it.
// https://git-scm.com/docs/gitprotocol-pack#_reference_discovery
type advertisement struct {
	r      io.Reader
	wanted selection
	// pending is what was read and is not passed on yet.
	pending []byte
	buffer  []byte
	// begun says that the first reference was passed on.
	begun bool
	// raw says that what follows is no list of references: go-git says what it is.
	raw bool
	err error
}

// onlyWanted is the list in r without what nobody asks for. It reads no further than the list goes.
func onlyWanted(r io.Reader, ref v1alpha1.GitRef) io.Reader {
	return &advertisement{r: r, wanted: selectionOf(ref)}
}

// Read is that of io.Reader.
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

// next reads a pkt-line, and passes it on or not.
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
		a.pending = header // it ends what a host says of the service
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

// fail passes on what was read of a line that does not end.
func (a *advertisement) fail(read []byte, err error) {
	a.pending, a.err = read, err
	if errors.Is(err, io.ErrUnexpectedEOF) {
		a.err = io.EOF
	}
}

// passes says whether a line is passed on. One that is no reference is, for go-git to refuse.
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
		return false // where the host's own history ends: what is fetched here ends by itself
	}
	return a.wanted.takes(hash, name, line)
}

// selection is what of a host's references a GitRef needs.
type selection struct {
	// names are full, and include those of what annotated tags name.
	names map[string]bool
	// commit is looked for among the tips, until it is found.
	commit []byte
	// newest is the tag with the highest version so far, where a range is wanted. Its lines are
	// kept until the list ends.
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
		if found, err := newestIn(ref.SemVer); err == nil { // another is refused where it is resolved
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

// first takes note of the first reference, which is passed on with the host's capabilities.
func (s *selection) first(payload []byte) {
	reference, _, _ := strings.Cut(string(payload), "\x00")
	_, name, _ := strings.Cut(reference, " ")
	if tag, ok := strings.CutPrefix(name, tags); ok && s.newest != nil {
		s.newest.take(tag)
	}
}

// takes says whether a line is passed on at once.
func (s *selection) takes(hash, name, line []byte) bool {
	if len(s.commit) > 0 && bytes.EqualFold(hash, s.commit) && !bytes.HasSuffix(name, []byte(peeledMark)) {
		s.commit = nil // one reference to it will do
		return true
	}
	if s.newest != nil && bytes.HasPrefix(name, []byte(tags)) {
		tag := string(name[len(tags):])
		switch {
		case s.newest.take(tag):
			s.lines = append(s.lines[:0], line...)
		case tag == s.newest.tag+peeledMark:
			s.lines = append(s.lines, line...)
		}
		return false
	}
	return s.names[string(name)]
}

// held are the lines that were kept until the list ends.
func (s *selection) held() []byte { return s.lines }
