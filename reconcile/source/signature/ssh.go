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

// namespace is what git signs in: a signature of a file or a mail is none of a commit.
const namespace = "git"

// dsa is the form of a signature by DSA.
const dsa = "ssh-dss"

// leastRSA is the least size of an RSA key, in bits.
const leastRSA = 2048

// sshKey is one public key, and what it may be used for.
type sshKey struct {
	// name is the entry, and whose key it is where the entry says so.
	name string
	key  gossh.PublicKey
	// namespaces it is for; all where there is none.
	namespaces []string
	// after and before bound when it counts; zero for no bound.
	after, before time.Time
}

// form of a line in an entry.
type form int

const (
	authorizedKey form = iota // [options] type key [comment]
	allowedSigner             // principals [options] type key [comment]
)

// addSSH reads an entry line by line. What a parser says is not repeated: it may quote
// the Secret.
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
			return k, errors.New("is no allowed signer: PRINCIPALS [OPTIONS] TYPE KEY")
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
	if bits, isRSA := sizeOfRSA(key); isRSA && bits < leastRSA {
		return k, fmt.Errorf("is an RSA key of %d bits, and %d are the least", bits, leastRSA)
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

// cutPrincipals takes the first field off, which may be quoted.
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

// limit reads an option of a key. An unknown one of an allowed signer is an error, as
// for ssh-keygen; those of authorized_keys are about logging in.
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
			return errors.New("has an option that is not known: namespaces, valid-after and valid-before are")
		}
	}
	return err
}

// parseTime reads a time as ssh-keygen does: UTC with a Z, else local; the daemon's
// local time is UTC.
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
		return "", &refusal{problem: fmt.Sprintf("has a signature of %s that was made for something else (namespace %.40q)", key, sig.Namespace), remedy: "sign it with git"}
	}
	if f := sig.Signature.Format; f == gossh.KeyAlgoRSA || f == dsa {
		return "", &refusal{problem: fmt.Sprintf("has a signature of %s by the weak algorithm %s", key, f), remedy: "sign it again with a newer ssh-keygen"}
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
			worst = closer(worst, &refusal{weight: notTrusted, problem: fmt.Sprintf("is signed with %s of %s, which %s", key, known.name, known.refuses(now)), remedy: "sign it with another key, or change the secret's entry"})
		default:
			return fmt.Sprintf("%s (SSH %s)", known.name, fingerprint), nil
		}
	}
	if worst == nil {
		worst = k.foreign(key)
	}
	return "", worst
}

// refuses says why a key does not count now; empty if it does.
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
