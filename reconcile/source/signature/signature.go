package signature

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// kind is the format of a signature.
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

// Commit returns the signer of a commit (the entry of the Secret and the key) and the creation time that the commit
// states. The error is an *Error.
func (k Keys) Commit(c Commit, now time.Time) (signer string, made time.Time, err error) {
	name := "commit " + shortHash(c.Hash)
	s, made, err := c.open()
	if err != nil {
		return "", made, &Error{Object: name, Problem: err.Error(), Remedy: "it was not written by git, and is not trusted"}
	}
	signer, err = k.verify(s, name, "sign it (git commit -S) and push it again", now)
	return signer, made, err
}

// Tag returns the signer of a tag (the entry of the Secret and the key) and the creation time that the tag states. The
// error is an *Error.
func (k Keys) Tag(t Tag, now time.Time) (signer string, made time.Time, err error) {
	name := "tag " + t.Name
	s, made, err := t.open()
	if err != nil {
		return "", made, &Error{
			Object: name, Problem: err.Error(), Remedy: "make and sign a tag of that name on the commit (git tag -s) and push it",
		}
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

// refusal is why a signature is not accepted. Among several, the one with the highest weight is reported.
type refusal struct {
	weight          int
	problem, remedy string
}

// Weights of refusals: with several keys, the refusal of the best match is reported.
const (
	otherKey = iota
	otherContent
	notTrusted
)

// closer returns the refusal with the higher weight.
func closer(a, b *refusal) *refusal {
	if a == nil || b != nil && b.weight > a.weight {
		return b
	}
	return a
}

// foreign is the refusal of a key that is not in the Secret.
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

// altered is the refusal of a signature of other content.
func altered(key string) *refusal {
	return &refusal{
		weight: otherContent, problem: fmt.Sprintf("is not what was signed with %s", key),
		remedy: "its content was changed, or its signature taken from another one: look at who has pushed it",
	}
}

func shortHash(hash string) string { return hash[:min(12, len(hash))] }

// some returns at most five of the names.
func some(names []string) string {
	const most = 5
	return shortlist.Join(names, most, ", ")
}

// Commit is a commit to verify.
type Commit struct {
	// Hash is the hash of the commit, in hex.
	Hash string
	// Data is the object as Git stores it, without Git's own header.
	Data []byte
	// Tree and Parents are the hashes that the caller uses as the commit's. If Data says otherwise, the commit is
	// refused.
	Tree    string
	Parents []string
}

// Tag is an annotated tag to verify.
type Tag struct {
	// Name is the requested name of the tag, without refs/tags/.
	Name string
	// Data is the object as Git stores it, without Git's own header.
	Data []byte
	// Commit is the hash of the commit that the caller uses as the tag's.
	Commit string
}

// signed is a parsed object: what a signature covers, and the signature, which is empty if there is none.
type signed struct {
	payload   []byte
	signature string
}

const (
	sha1Signature   = "gpgsig"
	sha256Signature = "gpgsig-sha256"
)

// headers iterates over the lines of an object's header, up to the empty line. A line that starts with a space
// continues the previous one.
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
	return nil, nil // a commit without a message consists of its header
}

// open parses a commit like git's parse_signed_commit, and verifies that the covered content is the commit that the
// caller uses. It also returns the creation time that the commit states.
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

// reads verifies that the covered bytes start with the tree and the parents that the caller uses for the commit, as Git
// writes them: a more lenient parser may have found others in what no signature covers.
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

// stamp returns the time at the end of a line "committer NAME <MAIL> SECONDS ZONE"; zero if there is none.
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

// open parses a tag. Its signature is at the end of its message.
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
			return errors.New("names another commit than the host reports")
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

// lastSignature returns the offset of the last line in a message that starts a signature, or -1.
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

// The suffixes of the names of a Secret's entries: Flux's for SSH keys, and that of ssh-keygen's allowed signers. Any
// other entry is parsed as OpenPGP keys, as in Flux.
const (
	sshEntry     = ".sshpub"
	allowedEntry = "allowed_signers"
)

// Keys are the public keys of the trusted signers.
type Keys struct {
	secret string
	rings  []ring
	ssh    []sshKey
	// unread are the entries of the Secret that cannot be parsed.
	unread []string
}

// ring contains the OpenPGP keys of one entry.
type ring struct {
	entry    string
	entities openpgp.EntityList
}

// KeysFromSecret parses the entries of a Secret. It ignores those that cannot be parsed, if at least one key can. The
// error is a *KeysError.
func KeysFromSecret(secret string, data map[string][]byte) (Keys, error) {
	k := Keys{secret: secret}
	var problems []string
	for _, entry := range slices.Sorted(maps.Keys(data)) {
		if err := k.add(entry, string(data[entry])); err != nil {
			k.unread = append(k.unread, entry)
			problems = append(problems, fmt.Sprintf("%s %v", entry, err))
		}
	}
	if len(k.rings)+len(k.ssh) > 0 {
		return k, nil
	}
	if len(problems) == 0 {
		problems = []string{"it has no entry"}
	}
	return Keys{}, &KeysError{Secret: secret, Reason: some(problems)}
}

func (k *Keys) add(entry, text string) error {
	switch {
	case strings.HasSuffix(entry, sshEntry):
		return k.addSSH(entry, text, authorizedKey)
	case strings.HasSuffix(entry, allowedEntry):
		return k.addSSH(entry, text, allowedSigner)
	}
	return k.addOpenPGP(entry, text)
}

const beginArmor = "-----BEGIN PGP PUBLIC KEY BLOCK-----"

// addOpenPGP parses one or more armored blocks. It does not repeat a parser's error, which may quote the Secret.
func (k *Keys) addOpenPGP(entry, text string) error {
	if strings.Contains(text, "-----BEGIN PGP PRIVATE KEY BLOCK-----") {
		return errors.New("has a private key, which belongs on no cluster")
	}
	found := ring{entry: entry}
	blocks := strings.Split(text, beginArmor)
	for _, block := range blocks[1:] {
		entities, err := openpgp.ReadArmoredKeyRing(strings.NewReader(beginArmor + block))
		if err != nil {
			return errors.New("is no armored OpenPGP public key")
		}
		for _, entity := range entities {
			if self, _ := entity.PrimarySelfSignature(); self != nil { // the self-signature states what the key may be used for
				found.entities = append(found.entities, entity)
			}
		}
	}
	if len(found.entities) == 0 {
		return errors.New("is no armored OpenPGP public key")
	}
	k.rings = append(k.rings, found)
	return nil
}

// Error is why a commit or a tag is not verified.
type Error struct {
	// Object is the commit or the tag, as shown to users.
	Object string
	// Problem completes a sentence that starts with Object, and Remedy says what to do.
	Problem, Remedy string
}

// Error names the object, the problem and the remedy.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Object + " " + e.Problem
	}
	return fmt.Sprintf("%s %s: %s", e.Object, e.Problem, e.Remedy)
}

// KeysError reports that a Secret contains no usable key.
type KeysError struct {
	Secret, Reason string
}

// Error says what to put into the Secret.
func (e *KeysError) Error() string {
	return fmt.Sprintf("secret %s has no key of a signer: %s: add public keys, one entry each: armored OpenPGP in NAME.asc, SSH in NAME.sshpub", e.Secret, e.Reason)
}
