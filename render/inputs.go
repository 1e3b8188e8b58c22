package render

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
)

// The identities of what was looked at and not into.
const (
	absent   = ""
	isFile   = "is:file"
	isFolder = "is:folder"
)

// Unchanged says whether all inputs are in a Snapshot as they were. Where its
// file system is Identified, no content is read.
func (in Inputs) Unchanged(snap Snapshot) (bool, error) {
	for name, before := range in {
		now, err := current(snap.FS, name, before)
		if err != nil {
			return false, fmt.Errorf("compare %s with the last render: %w", name, err)
		}
		if now != before {
			return false, nil
		}
	}
	return true, nil
}

// At returns what the inputs are in a Snapshot: the same names, each with an
// identity of the same sort.
func (in Inputs) At(snap Snapshot) (Inputs, error) {
	there := make(Inputs, len(in))
	for name, before := range in {
		now, err := current(snap.FS, name, before)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name, err)
		}
		there[name] = now
	}
	return there, nil
}

// Fingerprint is equal for two renders that have read the same.
func (in Inputs) Fingerprint() string {
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	slices.Sort(names)
	hash, line := sha256.New(), []byte(nil)
	for _, name := range names {
		line = strconv.AppendQuote(line[:0], name)
		line = strconv.AppendQuote(append(line, ' '), in[name])
		_, _ = hash.Write(append(line, '\n')) // a hash takes everything
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// Absent returns the inputs as they are where there is no file at all.
func (in Inputs) Absent() Inputs {
	none := make(Inputs, len(in))
	for name := range in {
		none[name] = absent
	}
	return none
}

// add adds the inputs of a part of the render.
func (in Inputs) add(part Inputs) {
	for name, identity := range part {
		known, ok := in[name]
		if ok && (identity == isFile || identity == isFolder) && known != absent {
			continue
		}
		in[name] = identity
	}
}

func (in Inputs) clone() Inputs { return maps.Clone(in) }

// current is the identity of what stands at a name now, of the same sort as
// the one noted before.
func current(fsys fs.FS, name, before string) (string, error) {
	if before == isFile || before == isFolder || before == absent {
		info, err := fs.Stat(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			return absent, nil
		}
		if err != nil {
			return "", err
		}
		return shape(info), nil
	}
	now, err := identify(fsys, name, func() (string, error) { return readIdentity(fsys, name) })
	if errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	return now, err
}

// identify asks the file system, and falls back on the content.
func identify(fsys fs.FS, name string, content func() (string, error)) (string, error) {
	if identified, ok := fsys.(Identified); ok {
		return identified.Identity(name)
	}
	return content()
}

func readIdentity(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return "", err
		}
		return listingIdentity(entries), nil
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", err
	}
	return contentIdentity(data), nil
}

func shape(info fs.FileInfo) string {
	if info.IsDir() {
		return isFolder
	}
	return isFile
}

func contentIdentity(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func listingIdentity(entries []fs.DirEntry) string {
	hash := sha256.New()
	for _, entry := range entries {
		fmt.Fprintf(hash, "%q %s\n", entry.Name(), entry.Type())
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}
