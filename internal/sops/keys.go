package sops

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/ProtonMail/go-crypto/openpgp"
	pgparmor "github.com/ProtonMail/go-crypto/openpgp/armor"
)

// Keys are what data keys are decrypted with.
type Keys struct {
	Age []age.Identity
	PGP openpgp.EntityList
	// KMS decrypts with a key of AWS KMS, by its ARN; nil if there is no access.
	KMS func(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error)
}

// The endings of the keys of a Secret, as in Flux.
const (
	ageEnding = ".agekey"
	pgpEnding = ".asc"
)

// KeysOf reads keys from the data of a Secret, as in Flux: *.agekey holds identities of age, and *.asc an armored OpenPGP
// private key without a passphrase. The error names the key of the Secret, and not its content.
func KeysOf(secret map[string][]byte) (Keys, error) {
	var keys Keys
	for _, name := range slices.Sorted(maps.Keys(secret)) {
		switch path.Ext(name) {
		case ageEnding:
			found, err := age.ParseIdentities(bytes.NewReader(secret[name]))
			if err != nil {
				return Keys{}, fmt.Errorf("the key %s holds no identity of age: write it as age-keygen does", name)
			}
			keys.Age = append(keys.Age, found...)
		case pgpEnding:
			found, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(secret[name]))
			if err != nil {
				return Keys{}, fmt.Errorf("the key %s holds no armored OpenPGP private key: write it as gpg --export-secret-keys --armor does", name)
			}
			keys.PGP = append(keys.PGP, found...)
		}
	}
	return keys, nil
}

// None reports whether there are no keys in the Secret.
func (k Keys) None() bool { return len(k.Age) == 0 && len(k.PGP) == 0 }

// KeyError reports that the data key of a file cannot be decrypted.
type KeyError struct {
	// For are the keys that the file is encrypted for: age1…, an OpenPGP fingerprint, an ARN, or a kind that is not supported.
	For []string
	// Err joins the errors of those that were tried, and FromKMS is that of AWS KMS, which may pass; nil if it was not asked.
	Err, FromKMS error
}

// Error names the keys that the file is encrypted for.
func (e *KeyError) Error() string {
	text := "no key decrypts it: it is encrypted for " + strings.Join(e.For, ", ")
	if e.Err != nil {
		text += ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
	}
	return text
}

// Unwrap returns the errors of the keys that were tried.
func (e *KeyError) Unwrap() error { return e.Err }

// dataKeySize is the size of a data key, in bytes.
const dataKeySize = 32

// dataKey decrypts the data key of a file: with local keys first, then by KMS.
func (k Keys) dataKey(ctx context.Context, m *metadata) ([]byte, error) {
	refused := &KeyError{}
	try := func(whose string, do func() ([]byte, error)) []byte {
		whose = fmt.Sprintf("%.200s", whose) // a file may contain any text
		refused.For = append(refused.For, whose)
		key, err := do()
		if err == nil && len(key) != dataKeySize {
			err = errors.New("the data key has another size")
		}
		if err != nil {
			refused.Err = errors.Join(refused.Err, fmt.Errorf("%s: %w", whose, err))
			return nil
		}
		return key
	}
	for _, one := range m.Age {
		if key := try(one.Recipient, func() ([]byte, error) { return k.byAge(one.Enc) }); key != nil {
			return key, nil
		}
	}
	for _, one := range m.PGP {
		if key := try("OpenPGP "+one.Fingerprint, func() ([]byte, error) { return k.byPGP(one.Enc) }); key != nil {
			return key, nil
		}
	}
	for _, one := range m.KMS {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		byKMS := func() ([]byte, error) {
			key, err := k.byKMS(ctx, one)
			if k.KMS != nil && err != nil {
				refused.FromKMS = err
			}
			return key, err
		}
		if key := try(one.ARN, byKMS); key != nil {
			return key, nil
		}
	}
	refused.For = append(refused.For, m.unsupported()...)
	if len(refused.For) == 0 {
		return nil, errors.New("its metadata names no key")
	}
	return nil, refused
}

func (k Keys) byAge(enc string) ([]byte, error) {
	if len(k.Age) == 0 {
		return nil, errors.New("the Secret has no key of age")
	}
	out, err := age.Decrypt(armor.NewReader(strings.NewReader(enc)), k.Age...)
	if err != nil {
		var none *age.NoIdentityMatchError
		if errors.As(err, &none) {
			return nil, errors.New("no key of age in the Secret matches")
		}
		return nil, errors.New("it is damaged")
	}
	return readKey(out)
}

func (k Keys) byPGP(enc string) ([]byte, error) {
	if len(k.PGP) == 0 {
		return nil, errors.New("the Secret has no OpenPGP key")
	}
	block, err := pgparmor.Decode(strings.NewReader(enc))
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	message, err := openpgp.ReadMessage(block.Body, k.PGP, nil, nil)
	if err != nil {
		return nil, errors.New("no OpenPGP key in the Secret matches, or it has a passphrase")
	}
	return readKey(message.UnverifiedBody)
}

func (k Keys) byKMS(ctx context.Context, key kmsKey) ([]byte, error) {
	switch {
	case k.KMS == nil:
		return nil, errors.New("AWS KMS is not asked")
	case key.Role != "":
		return nil, fmt.Errorf("it names the role %s, and roles are not assumed: allow kms:Decrypt to the daemon's own role", key.Role)
	}
	ciphertext, err := base64.StdEncoding.DecodeString(key.Enc)
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	return k.KMS(ctx, key.ARN, ciphertext, key.Context)
}

// readKey reads a decrypted data key.
func readKey(from io.Reader) ([]byte, error) {
	key, err := io.ReadAll(io.LimitReader(from, dataKeySize+1))
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	return key, nil
}
