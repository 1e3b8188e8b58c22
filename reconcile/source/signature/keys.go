package signature

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// The ends of the names of a Secret's entries, as Flux has them, and ssh-keygen's
// allowed signers. What has none of them is read as OpenPGP keys, as in Flux.
const (
	sshEntry     = ".sshpub"
	allowedEntry = "allowed_signers"
)

// Keys are the public keys of the trusted signers.
type Keys struct {
	secret string
	rings  []ring
	ssh    []sshKey
	// unread are the entries of the Secret that cannot be read.
	unread []string
}

// ring has the OpenPGP keys of one entry.
type ring struct {
	entry    string
	entities openpgp.EntityList
}

// KeysFromSecret reads the entries of a Secret. Those that cannot be read are passed
// over, as long as there is one key. The error is a *KeysError.
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

// addOpenPGP reads one or more armored blocks. What a parser says is not repeated: it
// may quote the Secret.
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
			if self, _ := entity.PrimarySelfSignature(); self != nil { // it says what the key is for
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
