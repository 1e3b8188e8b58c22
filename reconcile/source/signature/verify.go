package signature

import (
	"fmt"
	"strings"
	"time"
)

// kind of a signature.
type kind int

const (
	unknown kind = iota
	openPGP
	ssh
	x509
)

func kindOf(signature string) kind {
	for begin, k := range map[string]kind{
		"-----BEGIN PGP SIGNATURE-----":  openPGP,
		"-----BEGIN PGP MESSAGE-----":    openPGP,
		"-----BEGIN SSH SIGNATURE-----":  ssh,
		"-----BEGIN SIGNED MESSAGE-----": x509,
	} {
		if strings.HasPrefix(signature, begin) {
			return k
		}
	}
	return unknown
}

// Commit returns who has signed a commit: the entry of the Secret and the key; and when
// it was made, in its own words. The error is an *Error.
func (k Keys) Commit(c Commit, now time.Time) (signer string, made time.Time, err error) {
	name := "commit " + shortHash(c.Hash)
	s, made, err := c.open()
	if err != nil {
		return "", made, &Error{Object: name, Problem: err.Error(), Remedy: "it was not written by git, and is not trusted"}
	}
	signer, err = k.verify(s, name, "sign it (git commit -S) and push it again", now)
	return signer, made, err
}

// Tag returns who has signed a tag: the entry of the Secret and the key; and when it was
// made, in its own words. The error is an *Error.
func (k Keys) Tag(t Tag, now time.Time) (signer string, made time.Time, err error) {
	name := "tag " + t.Name
	s, made, err := t.open()
	if err != nil {
		return "", made, &Error{Object: name, Problem: err.Error(), Remedy: "make and sign a tag of that name on the commit (git tag -s) and push it"}
	}
	signer, err = k.verify(s, name, "sign it (git tag -s) and push it again", now)
	return signer, made, err
}

func (k Keys) verify(s signed, object, sign string, now time.Time) (string, error) {
	fail := func(problem, remedy string) (string, error) {
		return "", &Error{Object: object, Problem: problem, Remedy: remedy}
	}
	if strings.TrimSpace(s.signature) == "" {
		return fail("is not signed", sign)
	}
	var signer string
	var err *refusal
	switch kindOf(s.signature) {
	case openPGP:
		signer, err = k.byOpenPGP(s, now)
	case ssh:
		signer, err = k.bySSH(s, now)
	case x509:
		return fail("has an X.509 signature, which is not supported", "sign with an OpenPGP or an SSH key")
	case unknown:
		return fail("has a signature of an unknown form", sign)
	}
	if err != nil {
		return fail(err.problem, err.remedy)
	}
	return signer, nil
}

// refusal is why a signature does not count, the gravest of several the least
// telling.
type refusal struct {
	weight          int
	problem, remedy string
}

// How telling refusals are: of several keys, the one that came closest speaks.
const (
	otherKey = iota
	otherContent
	notTrusted
)

// closer is the more telling of two refusals.
func closer(a, b *refusal) *refusal {
	if a == nil || b != nil && b.weight > a.weight {
		return b
	}
	return a
}

// foreign refuses a key that the Secret lacks.
func (k Keys) foreign(key string) *refusal {
	r := &refusal{
		weight:  otherKey,
		problem: fmt.Sprintf("is signed with %s, which is not in secret %s", key, k.secret),
		remedy:  "sign it with one of the keys there, or add the public key if its owner is trusted",
	}
	if len(k.unread) > 0 {
		r.remedy += fmt.Sprintf(" (the secret's entries %s cannot be read)", some(k.unread))
	}
	return r
}

// altered refuses a signature of another content.
func altered(key string) *refusal {
	return &refusal{weight: otherContent, problem: fmt.Sprintf("is not what was signed with %s", key), remedy: "its content was changed, or its signature taken from another one: look at who has pushed it"}
}

func shortHash(hash string) string { return hash[:min(12, len(hash))] }

// some names at most five of several.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
