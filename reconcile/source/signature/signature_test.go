package signature_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// secret returns the keys of some signers, by entry.
func secret(t *testing.T, data map[string]string) signature.Keys {
	t.Helper()
	raw := map[string][]byte{}
	for name, text := range data {
		raw[name] = []byte(text)
	}
	keys, err := signature.KeysFromSecret("signers", raw)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestCommitsOfTrustedSigners(t *testing.T) {
	alice, bob := newPGP(t, now.AddDate(-1, 0, 0), 0), newSSH(t)
	ahead := newPGP(t, now.AddDate(-1, 0, 0), 0)
	ahead.at = now.Add(time.Minute)
	keys := secret(t, map[string]string{
		"alice.asc": alice.public(t), "bob.sshpub": "# laptop\n\n" + bob.public(t),
		"both": newPGP(t, now.AddDate(-1, 0, 0), 0).public(t) + ahead.public(t),
	})
	header, message := body(parent)
	mergetag := "mergetag object " + parent + "\n type commit\n tag v1\n tagger T <t@example.com> 1 +0000\n \n words\n -----BEGIN SSH SIGNATURE-----\n nothing\n -----END SSH SIGNATURE-----\n"
	cases := map[string]struct{ data, want string }{
		"openpgp":                    {commit(t, alice), "alice.asc (OpenPGP " + alice.id() + ")"},
		"ssh":                        {commit(t, bob), "bob.sshpub (SSH " + bob.fingerprint() + ")"},
		"the second block":           {commit(t, ahead), "both (OpenPGP " + ahead.id() + ")"},
		"with a merged tag":          {header + mergetag + headed("gpgsig", bob.sign(t, header+mergetag+message)) + message, "bob.sshpub (SSH " + bob.fingerprint() + ")"},
		"with one for SHA-256":       {header + headed("gpgsig", bob.sign(t, header+message)) + headed("gpgsig-sha256", "other\nlines\n") + message, "bob.sshpub (SSH " + bob.fingerprint() + ")"},
		"without a message":          {header + headed("gpgsig", bob.sign(t, header)), "bob.sshpub (SSH " + bob.fingerprint() + ")"},
		"words like one in its text": {header + headed("gpgsig", bob.sign(t, header+message+"gpgsig x\n")) + message + "gpgsig x\n", "bob.sshpub (SSH " + bob.fingerprint() + ")"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, made, err := keys.Commit(asCommit(c.data), now)
			if err != nil || got != c.want {
				t.Errorf("Commit() = %q, %v, want %q", got, err, c.want)
			}
			if made.Unix() != 1790000060 {
				t.Errorf("made at %s", made)
			}
		})
	}
}

func TestCommitsThatAreRefused(t *testing.T) {
	alice, bob, mallory, stranger := newPGP(t, now.AddDate(-1, 0, 0), 0), newSSH(t), newSSH(t), newPGP(t, now.AddDate(-1, 0, 0), 0)
	expired := newPGP(t, now.AddDate(-1, 0, 0), 30*24*time.Hour)
	revoked := newPGP(t, now.AddDate(-1, 0, 0), 0)
	future, text, file := *alice, *alice, *bob
	future.at, text.text, file.namespace = now.AddDate(1, 0, 0), true, "file"
	before := commit(t, revoked)
	revoke(t, revoked)
	keys := secret(t, map[string]string{"alice.asc": alice.public(t), "bob.sshpub": bob.public(t), "expired.asc": expired.public(t), "revoked.asc": revoked.public(t), "old.asc": "nonsense"})
	header, message := body(parent)
	good := commit(t, bob)
	cases := map[string]struct{ data, want string }{
		"unsigned":                    {header + message, "commit abcdefabcdef is not signed: sign it"},
		"empty signature":             {header + "gpgsig \n" + message, "is not signed"},
		"only one for SHA-256":        {header + headed("gpgsig-sha256", bob.sign(t, header+message)) + message, "is not signed"},
		"unknown OpenPGP key":         {commit(t, stranger), "is signed with OpenPGP key " + stranger.id() + ", which is not in secret signers"},
		"unknown SSH key":             {commit(t, mallory), "is signed with SSH key " + mallory.fingerprint() + ", which is not in secret signers: sign it with one of the keys there, or add the public key if its owner is trusted (the secret's entries old.asc cannot be read)"},
		"expired key":                 {commit(t, expired), "OpenPGP key " + expired.id() + " of expired.asc, which expired on 2025-12-22: extend the key"},
		"revoked key":                 {before, "of revoked.asc, which was revoked"},
		"signed in the future":        {commit(t, &future), "at a time that has not come yet"},
		"signature of a text":         {commit(t, &text), "is not one of a document"},
		"another namespace":           {commit(t, &file), `made for something else (namespace "file")`},
		"signature of another commit": {header + headed("gpgsig", bob.sign(t, header+"\nanother\n")) + message, "is not what was signed with SSH key"},
		"openpgp of another commit":   {header + headed("gpgsig", alice.sign(t, header+"\nanother\n")) + message, "is not what was signed with OpenPGP key"},
		"another tree":                {strings.Replace(good, tree, evil, 1), "can be read in two ways"},
		"another parent":              {strings.Replace(good, parent, evil, 1), "can be read in two ways"},
		"another message":             {good + "more\n", "is not what was signed"},
		"two signatures":              {header + headed("gpgsig", mallory.sign(t, header+message)) + headed("gpgsig", bob.sign(t, header+message)) + message, "has two signatures"},
		"another header of that kind": {strings.Replace(good, "\n\nAdd", "\ngpgsigner x\n\nAdd", 1), `has the unknown header "gpgsigner"`},
		"x509":                        {header + headed("gpgsig", "-----BEGIN SIGNED MESSAGE-----\nMII\n-----END SIGNED MESSAGE-----\n") + message, "X.509"},
		"unknown form":                {header + headed("gpgsig", "hello") + message, "signature of an unknown form"},
		"unreadable ssh":              {header + headed("gpgsig", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n") + message, "cannot be read"},
		"unreadable openpgp":          {header + headed("gpgsig", "-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n") + message, "cannot be read"},
		"no object":                   {"tree " + tree, "ends within its header"},
		"nothing":                     {"", "can be read in two ways"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			who, _, err := keys.Commit(asCommit(c.data), now)
			var refused *signature.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || who != "" {
				t.Errorf("Commit() = %q, %v, want %q", who, err, c.want)
			}
		})
	}
}

// Content that no signature covers is never used: a parser that is more lenient than git finds another tree in the
// header of a second signature.
func TestWhatIsNotCovered(t *testing.T) {
	bob := newSSH(t)
	keys := secret(t, map[string]string{"bob.sshpub": bob.public(t)})
	good := commit(t, bob)
	for name, smuggled := range map[string]string{
		"before":      strings.Replace(good, "tree ", "gpgsig-sha256\n tree "+evil+"\ntree ", 1),
		"after":       strings.Replace(good, "\n\nAdd", "\ngpgsig-sha256\n tree "+evil+"\n\nAdd", 1),
		"a parent":    strings.Replace(good, "\n\nAdd", "\ngpgsig-sha256\n parent "+evil+"\n\nAdd", 1),
		"a committer": strings.Replace(good, "\n\nAdd", "\ngpgsig-sha256\n committer X <x> 1 +0000\n\nAdd", 1),
	} {
		t.Run(name, func(t *testing.T) {
			for _, read := range []signature.Commit{
				{Hash: hash, Data: []byte(smuggled), Tree: evil, Parents: []string{parent}},
				{Hash: hash, Data: []byte(smuggled), Tree: tree, Parents: []string{parent, evil}},
			} {
				if who, _, err := keys.Commit(read, now); err == nil {
					t.Errorf("tree %s and parents %v count as signed by %s", read.Tree, read.Parents, who)
				}
			}
			if _, made, err := keys.Commit(asCommit(smuggled), now); err != nil || made.Unix() != 1790000060 {
				t.Errorf("git's reading: %v, made at %s", err, made)
			}
		})
	}
}

func revoke(t *testing.T, s *pgpSigner) {
	t.Helper()
	if err := s.entity.RevokeKey(packet.KeyCompromised, "stolen", &packet.Config{Time: func() time.Time { return s.at.Add(time.Hour) }}); err != nil {
		t.Fatal(err)
	}
}

func TestTags(t *testing.T) {
	alice, bob := newPGP(t, now.AddDate(-1, 0, 0), 0), newSSH(t)
	keys := secret(t, map[string]string{"alice.asc": alice.public(t), "bob.sshpub": bob.public(t)})
	text := func(name, kind, commit string) string {
		return "object " + commit + "\ntype " + kind + "\ntag " + name + "\ntagger T <t@example.com> 1790000000 +0000\n\nRelease\n"
	}
	good := text("v1.0.0", "commit", parent)
	cases := map[string]struct{ data, signer, want string }{
		"openpgp":              {data: good + alice.sign(t, good), signer: "alice.asc (OpenPGP " + alice.id() + ")"},
		"ssh":                  {data: good + bob.sign(t, good), signer: "bob.sshpub (SSH " + bob.fingerprint() + ")"},
		"unsigned":             {data: good, want: "tag v1.0.0 is not signed: sign it (git tag -s)"},
		"of another commit":    {data: text("v1.0.0", "commit", evil) + bob.sign(t, text("v1.0.0", "commit", evil)), want: "names another commit than the host reports"},
		"of another tag":       {data: text("v1.0.0", "tag", parent) + bob.sign(t, text("v1.0.0", "tag", parent)), want: "names another tag, and not a commit"},
		"under another name":   {data: text("v0.9.0", "commit", parent) + bob.sign(t, text("v0.9.0", "commit", parent)), want: `was made and signed as "tag v0.9.0"`},
		"signature of another": {data: good + bob.sign(t, text("v0.9.0", "commit", parent)), want: "is not what was signed"},
		"unknown header":       {data: strings.Replace(good, "\n\nRel", "\ngpgsig-sha256 x\n\nRel", 1) + bob.sign(t, good), want: "unknown header"},
		"cut short":            {data: "object " + parent + "\n\n", want: "lacks a part of its header"},
		"signature in its text": {
			data:   good + "-----BEGIN SSH SIGNATURE-----\nquoted\n" + bob.sign(t, good+"-----BEGIN SSH SIGNATURE-----\nquoted\n"),
			signer: "bob.sshpub (SSH " + bob.fingerprint() + ")",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, made, err := keys.Tag(signature.Tag{Name: "v1.0.0", Data: []byte(c.data), Commit: parent}, now)
			if c.want == "" && (err != nil || got != c.signer) {
				t.Errorf("Tag() = %q, %v, want %q", got, err, c.signer)
			}
			if c.want == "" && made.Unix() != 1790000000 {
				t.Errorf("made at %s", made)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Tag() = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A key counts if its expired copy is listed with the extended one.
func TestExtendedKey(t *testing.T) {
	alice := newPGP(t, now.AddDate(-1, 0, 0), 30*24*time.Hour)
	before, data := alice.public(t), commit(t, alice)
	lasting := uint32(10 * 365 * 24 * 3600)
	for _, identity := range alice.entity.Identities {
		identity.SelfSignature.KeyLifetimeSecs = &lasting
		if err := identity.SelfSignature.SignUserId(identity.UserId.Id, alice.entity.PrimaryKey, alice.entity.PrivateKey, nil); err != nil {
			t.Fatal(err)
		}
	}
	after := armored(t, openpgp.PublicKeyType, alice.entity.Serialize)
	keys := secret(t, map[string]string{"1-old.asc": before, "2-new.asc": after})
	if got, _, err := keys.Commit(asCommit(data), now); err != nil || !strings.HasPrefix(got, "2-new.asc") {
		t.Errorf("Commit() = %q, %v", got, err)
	}
}

func TestAllowedSigners(t *testing.T) {
	bob := newSSH(t)
	data, key := commit(t, bob), strings.TrimSpace(bob.public(t))
	cases := map[string]struct{ line, want string }{
		"plain":             {line: "bob@example.com " + key},
		"quoted principals": {line: `"bob@example.com,b@example.com" ` + key},
		"for git":           {line: `bob@example.com namespaces="git,file" ` + key},
		"for files":         {line: `bob@example.com namespaces="file" ` + key, want: "which is not for the namespace git"},
		"valid for now":     {line: `bob@example.com valid-after="20260101",valid-before="20270101Z" ` + key},
		"expired":           {line: `bob@example.com valid-before="202611220000" ` + key, want: "which expired on 2026-11-22"},
		"not yet":           {line: `bob@example.com valid-after="20270101" ` + key, want: "which is valid only after 2027-01-01"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys := secret(t, map[string]string{"team.allowed_signers": "# the team\n" + c.line + "\n"})
			who, _, err := keys.Commit(asCommit(data), now)
			switch {
			case c.want == "" && (err != nil || !strings.HasPrefix(who, "team.allowed_signers: ")):
				t.Errorf("Commit() = %q, %v", who, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Commit() = %q, %v, want %q", who, err, c.want)
			}
		})
	}
}

// A Secret's content is never repeated, because anyone may name any Secret.
func TestSecretsWithoutAKey(t *testing.T) {
	private := newPGP(t, now, 0)
	bob := strings.TrimSpace(newSSH(t).public(t))
	cases := map[string]struct {
		data map[string]string
		want string
	}{
		"empty":             {want: "it has no entry"},
		"a password":        {data: map[string]string{"password": "hunter2"}, want: "password is no armored OpenPGP public key"},
		"a private key":     {data: map[string]string{"a.asc": strings.ReplaceAll(private.public(t), "PUBLIC", "PRIVATE")}, want: "a.asc has a private key"},
		"not ssh":           {data: map[string]string{"a.sshpub": "\nhunter2"}, want: "a.sshpub line 2 is no SSH public key"},
		"no line":           {data: map[string]string{"a.sshpub": "# hunter2\n"}, want: "a.sshpub is empty"},
		"a weak key":        {data: map[string]string{"a.sshpub": weakRSA(t)}, want: "is an RSA key of 1024 bits"},
		"no principals":     {data: map[string]string{"allowed_signers": "hunter2"}, want: "is not an allowed signer"},
		"an authority":      {data: map[string]string{"allowed_signers": "a cert-authority " + bob}, want: "is an authority of certificates"},
		"an unknown option": {data: map[string]string{"allowed_signers": "a hunter2 " + bob}, want: "has an unknown option"},
		"a time twice":      {data: map[string]string{"allowed_signers": `a valid-before="20260101",Valid-Before="20990101" ` + bob}, want: "has the option valid-before twice"},
		"a strange time":    {data: map[string]string{"allowed_signers": `a valid-before="hunter2" ` + bob}, want: "has a time that is not"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for entry, text := range c.data {
				data[entry] = []byte(text)
			}
			_, err := signature.KeysFromSecret("signers", data)
			var none *signature.KeysError
			if !errors.As(err, &none) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("KeysFromSecret() = %v, want %q", err, c.want)
			}
		})
	}
}
