package promotion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// emptyTree is the hash of Git's empty tree, which every repository knows. The record is in the message of the commit,
// so the signature of the commit covers it.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// MaxRecord limits the size of a record's commit, in bytes.
const MaxRecord = 256 << 10

// MaxSkew is how far the clock of another cluster may be ahead.
const MaxSkew = 5 * time.Minute

// subject is the first line of a record's commit.
const subject = "plumbline: record of "

// Envelope is the commit that carries a record.
type Envelope struct {
	// Hash of the commit, in hex.
	Hash string
	// Data is the commit as Git stores it, without Git's own header.
	Data []byte
	// Problem is why Data could not be read; empty if it could.
	Problem string
}

// Commit returns the commit that carries a record, as Git stores it. It has no parent and no file. sign returns the
// armored signature of a text, in the namespace of Git.
func (r Record) Commit(sign func(payload []byte) (string, error)) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the record of %s: %w", r.Member(), err)
	}
	by := fmt.Sprintf("plumbline <plumbline@%s> %d +0000", r.Cluster, r.At.Unix())
	header := fmt.Sprintf("tree %s\nauthor %s\ncommitter %s\n", emptyTree, by, by)
	message := fmt.Sprintf("\n%s%s\n\n%s\n", subject, r.Member(), text)
	armored, err := sign([]byte(header + message))
	if err != nil {
		return nil, fmt.Errorf("sign the record of %s: %w", r.Member(), err)
	}
	armored = strings.ReplaceAll(strings.TrimSuffix(armored, "\n"), "\n", "\n ")
	return []byte(header + "gpgsig " + armored + "\n" + message), nil
}

// Open returns the record in an envelope that the reference of a member points to, if one of the member's keys signed
// it. Every error means that the record proves nothing.
func (e Envelope) Open(m Member, keys signature.Keys, now time.Time) (Record, error) {
	if e.Problem != "" {
		return Record{}, errors.New(e.Problem)
	}
	if len(e.Data) > MaxRecord {
		return Record{}, fmt.Errorf("the record has %d bytes, and %d are the most", len(e.Data), MaxRecord)
	}
	if _, _, err := keys.Commit(signature.Commit{Hash: e.Hash, Data: e.Data, Tree: emptyTree}, now); err != nil {
		problem := err.Error()
		if bad := (*signature.Error)(nil); errors.As(err, &bad) {
			problem = "it " + bad.Problem
		}
		return Record{}, fmt.Errorf("the record is not signed by the cluster: %s", problem)
	}
	_, message, _ := bytes.Cut(e.Data, []byte("\n\n"))
	_, text, _ := bytes.Cut(message, []byte("\n\n"))
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, errors.New("the record cannot be read")
	}
	switch {
	case r.Member() != m:
		return Record{}, fmt.Errorf("the record is that of %s", r.Member())
	case r.At.After(now.Add(MaxSkew)):
		return Record{}, fmt.Errorf("the record is from the future: compare the clock of the cluster with that of this one")
	}
	return r, nil
}

// Standing is what is known of a member from its reference.
type Standing struct {
	// Record is its newest record; nil if there is none that proves something.
	Record *Record
	// Problem is why the reference proves nothing; empty if it does, or if there is none.
	Problem string
}

// Records are the standings of the members of a fleet.
type Records map[Member]Standing

// Serials are the newest serials that were seen of each member. They are kept between reconciles: a reference that was
// set back to an older record, or deleted, then proves nothing.
type Serials map[Member]int64

// Read opens the envelopes of each member, one for each of its references: the newest record counts. keys are those of
// each member; a member without keys proves nothing. It returns the standings, and the serials to keep: of members that
// have keys only, so that those of a retired cluster do not remain for ever.
func Read(envelopes map[Member][]Envelope, keys map[Member]signature.Keys, seen Serials, now time.Time) (Records, Serials) {
	found, kept := Records{}, Serials{}
	for m := range envelopes {
		if _, known := keys[m]; !known {
			found[m] = Standing{Problem: "spec.promotion has no public key of the cluster"}
		}
	}
	for m, of := range keys {
		last := seen[m]
		standing := Standing{}
		there := len(envelopes[m]) > 0
		r, err := newest(envelopes[m], m, of, now)
		switch {
		case !there && last > 0:
			standing.Problem = "the record was deleted"
		case !there:
		case err != nil:
			standing.Problem = err.Error()
		case r.Serial < last:
			standing.Problem = fmt.Sprintf("the record is older than before (serial %d after %d)", r.Serial, last)
		default:
			standing.Record, last = &r, r.Serial
		}
		if found[m] = standing; last > 0 {
			kept[m] = last
		}
	}
	return found, kept
}

// newest returns the newest record of a member; if none proves something, the error of the first envelope.
func newest(envelopes []Envelope, m Member, keys signature.Keys, now time.Time) (found Record, err error) {
	for i, e := range envelopes {
		r, wrong := e.Open(m, keys, now)
		switch {
		case i == 0:
			found, err = r, wrong
		case wrong == nil && (err != nil || r.Serial > found.Serial):
			found, err = r, nil
		}
	}
	return found, err
}
