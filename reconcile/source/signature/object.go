package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Commit is a commit to be verified.
type Commit struct {
	// Hash of the commit, in hex.
	Hash string
	// Data is the object as Git stores it, without Git's own header.
	Data []byte
	// Tree and Parents are the hashes that go on to be used as the commit's. One that
	// reads otherwise here is refused.
	Tree    string
	Parents []string
}

// Tag is an annotated tag to be verified.
type Tag struct {
	// Name that the tag was asked for by, without refs/tags/.
	Name string
	// Data is the object as Git stores it, without Git's own header.
	Data []byte
	// Commit is the hash of the commit that goes on to be used as the tag's.
	Commit string
}

// signed is an object taken apart: what a signature covers, and the signature,
// empty where there is none.
type signed struct {
	payload   []byte
	signature string
}

const (
	sha1Signature   = "gpgsig"
	sha256Signature = "gpgsig-sha256"
)

// headers iterates over the lines of an object's header, up to the empty line. A line
// that begins with a space continues the one before.
func headers(data []byte, visit func(name string, line []byte, continued bool) error) (message []byte, err error) {
	name := ""
	for rest := data; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return nil, errors.New("ends within its header")
		}
		line := rest[:end+1]
		if end == 0 {
			return rest, nil
		}
		continued := line[0] == ' '
		if !continued {
			name, _, _ = strings.Cut(string(line[:end]), " ")
		}
		if continued && name == "" {
			return nil, errors.New("begins with a space")
		}
		if err := visit(name, line, continued); err != nil {
			return nil, err
		}
		rest = rest[end+1:]
	}
	return nil, nil // a commit without a message ends with its header
}

// open takes a commit apart as git's parse_signed_commit does, and checks that what
// is covered reads as the commit that goes on to be used. It returns when the commit
// was made, in its own words, too.
// https://github.com/git/git/blob/v2.47.0/commit.c
func (c Commit) open() (signed, time.Time, error) {
	var s signed
	var signature bytes.Buffer
	seen := map[string]bool{}
	message, err := headers(c.Data, func(name string, line []byte, continued bool) error {
		switch {
		case !strings.HasPrefix(name, sha1Signature):
			s.payload = append(s.payload, line...)
			return nil
		case name != sha1Signature && name != sha256Signature:
			return fmt.Errorf("has the unknown header %.40q", name)
		case continued && name == sha1Signature:
			signature.Write(line[1:])
			return nil
		case continued:
			return nil
		case seen[name]:
			return errors.New("has two signatures")
		}
		seen[name] = true
		if name == sha1Signature {
			signature.Write(bytes.TrimPrefix(line[len(name):], []byte(" ")))
		}
		return nil
	})
	if err != nil {
		return signed{}, time.Time{}, err
	}
	s.payload = append(s.payload, message...)
	s.signature = signature.String()
	at, err := c.reads(s.payload)
	return s, at, err
}

// reads checks that the covered bytes begin with the tree and the parents that the
// commit is used with, as Git writes them: a parser that is more generous may have found
// others in what no signature covers.
func (c Commit) reads(payload []byte) (time.Time, error) {
	rest := string(payload)
	for _, want := range append([]string{"tree " + c.Tree}, prefixed("parent ", c.Parents)...) {
		line, after, _ := strings.Cut(rest, "\n")
		if line != want {
			return time.Time{}, errors.New("can be read in two ways")
		}
		rest = after
	}
	author, rest, _ := strings.Cut(rest, "\n")
	committer, _, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(author, "author ") || !strings.HasPrefix(committer, "committer ") {
		return time.Time{}, errors.New("can be read in two ways")
	}
	return stamp(committer), nil
}

// stamp is the time at the end of a line "committer NAME <MAIL> SECONDS ZONE"; zero
// where there is none.
func stamp(line string) time.Time {
	fields := strings.Fields(line[strings.LastIndexByte(line, '>')+1:])
	if len(fields) != 2 {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func prefixed(prefix string, all []string) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = prefix + one
	}
	return out
}

// open takes a tag apart. Its signature stands at the end of its message.
// https://github.com/git/git/blob/v2.47.0/gpg-interface.c, parse_signed_buffer
func (t Tag) open() (signed, time.Time, error) {
	want := []string{"object " + t.Commit, "type commit", "tag " + t.Name}
	at := 0
	var made time.Time
	message, err := headers(t.Data, func(name string, line []byte, _ bool) error {
		text := strings.TrimSuffix(string(line), "\n")
		defer func() { at++ }()
		switch {
		case at == 0 && text != want[0]:
			return errors.New("names another commit than the host says it does")
		case at == 1 && text != want[1]:
			return errors.New("names another tag, and not a commit")
		case at == 2 && text != want[2]:
			return fmt.Errorf("was made and signed as %.100q, and not under the name by which the host gives it out", text)
		case at == 3 && name != "tagger", at > 3:
			return fmt.Errorf("has the unknown header %.40q", name)
		case at == 3:
			made = stamp(text)
		}
		return nil
	})
	if err == nil && at < len(want) {
		err = errors.New("lacks a part of its header")
	}
	if err != nil {
		return signed{}, made, err
	}
	start := lastSignature(message)
	if start < 0 {
		return signed{payload: t.Data}, made, nil
	}
	return signed{payload: t.Data[:len(t.Data)-len(message)+start], signature: string(message[start:])}, made, nil
}

// lastSignature is where the last line of a message stands that begins a signature.
func lastSignature(message []byte) int {
	last, at := -1, 0
	for line := range bytes.Lines(message) {
		if kindOf(string(line)) != unknown {
			last = at
		}
		at += len(line)
	}
	return last
}
