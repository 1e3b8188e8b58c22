package signature

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	gossh "golang.org/x/crypto/ssh"
)

// namespace is what git signs in: a signature of a file or a mail must not be accepted for a commit.
const namespace = "git"

// dsa is the format of a DSA signature.
const dsa = "ssh-dss"

// minRSA is the minimum size of an RSA key, in bits.
const minRSA = 2048

// sshKey is a public key and its restrictions.
type sshKey struct {
	// name is the entry, with the key's principals if the entry has them.
	name string
	key  gossh.PublicKey
	// namespaces are those that the key may sign in; empty for all.
	namespaces []string
	// after and before limit when the key is valid; zero for no limit.
	after, before time.Time
}

// form is the format of a line in an entry.
type form int

const (
	authorizedKey form = iota // [options] type key [comment]
	allowedSigner             // principals [options] type key [comment]
)

// addSSH parses an entry line by line. It does not repeat a parser's error, which may quote the Secret.
func (k *Keys) addSSH(entry, text string, f form) error {
	var found []sshKey
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := parseSSH(entry, line, f)
		if err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		found = append(found, key)
	}
	if len(found) == 0 {
		return errors.New("is empty")
	}
	k.ssh = append(k.ssh, found...)
	return nil
}

func parseSSH(entry, line string, f form) (sshKey, error) {
	k := sshKey{name: entry}
	if f == allowedSigner {
		principals, rest, ok := cutPrincipals(line)
		if !ok {
			return k, errors.New("is not an allowed signer: PRINCIPALS [OPTIONS] TYPE KEY")
		}
		k.name, line = entry+": "+principals, rest
	}
	key, _, options, _, err := gossh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return k, errors.New("is no SSH public key")
	}
	if _, isCertificate := key.(*gossh.Certificate); isCertificate {
		return k, errors.New("is a certificate, which is not supported")
	}
	if bits, isRSA := sizeOfRSA(key); isRSA && bits < minRSA {
		return k, fmt.Errorf("is an RSA key of %d bits, and %d are the least", bits, minRSA)
	}
	k.key = key
	seen := map[string]bool{}
	for _, option := range options {
		name, _, _ := strings.Cut(strings.ToLower(option), "=")
		if seen[name] && f == allowedSigner {
			return k, fmt.Errorf("has the option %s twice", name)
		}
		seen[name] = true
		if err := k.limit(option, f); err != nil {
			return k, err
		}
	}
	return k, nil
}

// cutPrincipals splits off the first field, which may be quoted.
func cutPrincipals(line string) (principals, rest string, ok bool) {
	if quoted, found := strings.CutPrefix(line, `"`); found {
		principals, rest, ok = strings.Cut(quoted, `"`)
	} else {
		at := strings.IndexAny(line, " \t")
		if at < 0 {
			return "", "", false
		}
		principals, rest, ok = line[:at], line[at:], true
	}
	return principals, strings.TrimSpace(rest), ok && principals != ""
}

func sizeOfRSA(key gossh.PublicKey) (bits int, is bool) {
	inner, ok := key.(gossh.CryptoPublicKey)
	if !ok {
		return 0, false
	}
	public, ok := inner.CryptoPublicKey().(*rsa.PublicKey)
	if !ok {
		return 0, false
	}
	return public.N.BitLen(), true
}

// limit applies an option of a key. An unknown option of an allowed signer is an error, as in ssh-keygen; other options
// of authorized_keys concern logins.
func (k *sshKey) limit(option string, f form) (err error) {
	name, value, _ := strings.Cut(option, "=")
	value = strings.Trim(value, `"`)
	switch strings.ToLower(name) {
	case "namespaces":
		k.namespaces = strings.Split(value, ",")
	case "valid-after":
		k.after, err = parseTime(value)
	case "valid-before", "expiry-time":
		k.before, err = parseTime(value)
	case "cert-authority":
		return errors.New("is an authority of certificates, which are not supported")
	default:
		if f == allowedSigner {
			return errors.New("has an unknown option: the supported ones are namespaces, valid-after and valid-before")
		}
	}
	return err
}

// parseTime parses a time like ssh-keygen: UTC with a Z, otherwise local; the daemon's local time is UTC.
func parseTime(text string) (time.Time, error) {
	text = strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("has a time that is not YYYYMMDD[HHMM[SS]][Z]")
}

// bySSH verifies an armored SSH signature.
// https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
func (k Keys) bySSH(s signed, now time.Time) (string, *refusal) {
	sig, err := sshsig.Unarmor([]byte(s.signature))
	if err != nil {
		return "", unreadable
	}
	fingerprint := gossh.FingerprintSHA256(sig.PublicKey)
	key := "SSH key " + fingerprint
	if sig.Namespace != namespace {
		return "", &refusal{
			problem: fmt.Sprintf("has a signature of %s that was made for something else (namespace %.40q)", key, sig.Namespace),
			remedy:  "sign it with git",
		}
	}
	if f := sig.Signature.Format; f == gossh.KeyAlgoRSA || f == dsa {
		return "", &refusal{
			problem: fmt.Sprintf("has a signature of %s by the weak algorithm %s", key, f), remedy: "sign it again with a newer ssh-keygen",
		}
	}
	var worst *refusal
	for _, known := range k.ssh {
		if !bytes.Equal(known.key.Marshal(), sig.PublicKey.Marshal()) {
			continue
		}
		switch err := sshsig.Verify(bytes.NewReader(s.payload), sig, known.key, sig.HashAlgorithm, namespace); {
		case err != nil:
			worst = closer(worst, altered(key))
		case known.refuses(now) != "":
			worst = closer(worst, &refusal{
				weight: notTrusted, problem: fmt.Sprintf("is signed with %s of %s, which %s", key, known.name, known.refuses(now)),
				remedy: "sign it with another key, or change the secret's entry",
			})
		default:
			return fmt.Sprintf("%s (SSH %s)", known.name, fingerprint), nil
		}
	}
	if worst == nil {
		worst = k.foreign(key)
	}
	return "", worst
}

// refuses returns why a key is not accepted now; empty if it is.
func (k sshKey) refuses(now time.Time) string {
	switch {
	case len(k.namespaces) > 0 && !slices.Contains(k.namespaces, namespace):
		return "is not for the namespace git"
	case !k.after.IsZero() && now.Before(k.after):
		return "is valid only after" + strings.TrimPrefix(onDay(k.after), " on")
	case !k.before.IsZero() && !now.Before(k.before):
		return "expired" + onDay(k.before)
	}
	return ""
}
