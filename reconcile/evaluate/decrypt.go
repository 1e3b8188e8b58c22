package evaluate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/internal/sops"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/render"
)

// DecryptByKMS decrypts with a key of AWS KMS, by its ARN.
type DecryptByKMS func(ctx context.Context, arn string, ciphertext []byte, encryptionContext map[string]string) ([]byte, error)

// errNoDecryption is why encrypted values stop a commit.
var errNoDecryption = errors.New("it was encrypted with sops, and spec.decryption of the NodeSync is not set: set provider sops and the secretRef with the key")

// decrypted returns the layers of values in Git. Those of an encrypted file count as those of a Secret: they are hidden in
// everything that is reported, and a digest covers only their encrypted form. If one cannot be decrypted, nothing of the
// commit is applied.
func (s *DesiredStep) decrypted(ctx context.Context) ([]charts.Layer, error) {
	layers := inGit(s.Karpenter, s.FileValues)
	var all []charts.Layer
	var keys *sops.Keys
	for i := range layers {
		all = append(all, layers[i])
		if i >= len(s.FileValues) || !sops.Encrypted(s.FileValues[i]) {
			continue
		}
		if keys == nil {
			found, err := s.decryptionKeys(ctx)
			if err != nil {
				return nil, fmt.Errorf("decrypt %s: %w", layers[i].Origin, err)
			}
			keys = &found
		}
		sealed, err := s.decryptFile(ctx, i, *keys)
		if err != nil {
			return nil, err
		}
		all = append(all, sealed)
	}
	return all, nil
}

// decryptionKeys reads the keys.
func (s *DesiredStep) decryptionKeys(ctx context.Context) (sops.Keys, error) {
	by := s.Sync.Spec.Decryption
	if by == nil {
		return sops.Keys{}, fault.Refused(errNoDecryption)
	}
	keys := sops.Keys{}
	if by.SecretRef != nil {
		secret, err := s.Secret(ctx, by.SecretRef.Name)
		if apierrors.IsNotFound(err) {
			return keys, fault.Waits(fmt.Errorf("secret %s, which spec.decryption names, does not exist in namespace %s: create it", by.SecretRef.Name, s.Sync.Namespace))
		}
		if err != nil {
			return keys, fmt.Errorf("read secret %s, which spec.decryption names: %w", by.SecretRef.Name, err)
		}
		if err := grant.CheckNodeSync(secret, s.Sync.Name); err != nil {
			return keys, err
		}
		for _, data := range secret.Data {
			s.HideCredential(string(data))
		}
		if keys, err = sops.KeysOf(secret.Data); err != nil {
			return keys, fault.Refused(fmt.Errorf("secret %s, which spec.decryption names: %w", secret.Name, err))
		}
		if keys.None() {
			return keys, fault.Refused(fmt.Errorf("secret %s, which spec.decryption names, has no key that ends in .agekey or .asc", secret.Name))
		}
	}
	if by.SecretRef == nil {
		keys.KMS = s.KMS
	}
	return keys, nil
}

// decryptFile decrypts one file of valuesFiles.
func (s *DesiredStep) decryptFile(ctx context.Context, i int, keys sops.Keys) (charts.Layer, error) {
	entry := s.Karpenter.ValuesFiles[i]
	text, err := s.Files.ReadFile(path.Join(path.Dir(render.ConfigFile(s.Sync.Spec.Path)), entry))
	if err != nil {
		return charts.Layer{}, fmt.Errorf("read %s: %w", entry, err)
	}
	values, err := sops.Decrypt(ctx, text, keys)
	if err != nil {
		err = fmt.Errorf("decrypt %s: %w", entry, err)
		var unopened *sops.KeyError
		if errors.As(err, &unopened) && unopened.FromKMS != nil {
			return charts.Layer{}, err // it may pass
		}
		return charts.Layer{}, fault.Refused(err)
	}
	plain, err := json.Marshal(values) // JSON is YAML
	if err != nil {
		return charts.Layer{}, fmt.Errorf("decrypt %s: its values cannot be written", entry)
	}
	return charts.Layer{Origin: entry, Text: string(plain), Sealed: fmt.Sprintf("sops %x", sha256.Sum256(text))}, nil
}
