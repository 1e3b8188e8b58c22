package stories_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"os"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const sopsUsage = "usage: sops key NAME SECRET, sops encrypt NAME FILE"

// sopsCommand implements sopsUsage.
func (s *story) sopsCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New(sopsUsage)
	}
	switch args[0] {
	case "key":
		return s.sopsKey(args[1], args[2])
	case "encrypt":
		key := s.ageKeys[args[1]]
		if key == nil {
			return fmt.Errorf("there is no key %s", args[1])
		}
		file := ts.MkAbs(args[2])
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what is to be encrypted: %w", err)
		}
		sealed, err := encryptWithSOPS(text, key.Recipient())
		if err != nil {
			return err
		}
		return os.WriteFile(file, sealed, 0o600)
	}
	return errors.New(sopsUsage)
}

// sopsKey makes a key of age, and the Secret that holds it.
func (s *story) sopsKey(name, secret string) error {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("make a key of age: %w", err)
	}
	if s.ageKeys == nil {
		s.ageKeys = map[string]*age.X25519Identity{}
	}
	s.ageKeys[name] = key
	manifest, err := sigsyaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": secret, "namespace": daemon.Namespace},
		"stringData": map[string]string{name + ".agekey": key.String() + "\n"},
	})
	if err != nil {
		return fmt.Errorf("write the Secret's manifest: %w", err)
	}
	return s.apply(manifest)
}

// encryptWithSOPS encrypts all values of a YAML file as `sops encrypt --age RECIPIENT` does (sops.go and aes/cipher.go of
// github.com/getsops/sops, v3.13.3).
func encryptWithSOPS(text []byte, to *age.X25519Recipient) ([]byte, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read what is to be encrypted: %w", err)
	}
	w := &sopsWriter{key: make([]byte, 32), mac: sha512.New()}
	_, _ = rand.Read(w.key)
	if err := w.encrypt(file.Content[0], nil); err != nil {
		return nil, err
	}
	var enc bytes.Buffer
	armored := armor.NewWriter(&enc)
	out, err := age.Encrypt(armored, to)
	if err != nil {
		return nil, fmt.Errorf("encrypt the data key: %w", err)
	}
	_, err = out.Write(w.key)
	if err := errors.Join(err, out.Close(), armored.Close()); err != nil {
		return nil, fmt.Errorf("encrypt the data key: %w", err)
	}
	modified := time.Now().UTC().Format(time.RFC3339)
	mac, err := w.seal(fmt.Sprintf("%X", w.mac.Sum(nil)), "str", modified)
	if err != nil {
		return nil, err
	}
	sealed, err := yaml.Marshal(file.Content[0])
	if err != nil {
		return nil, fmt.Errorf("write what was encrypted: %w", err)
	}
	metadata, err := yaml.Marshal(map[string]any{"sops": map[string]any{
		"age":          []any{map[string]string{"recipient": to.String(), "enc": enc.String()}},
		"lastmodified": modified, "mac": mac, "unencrypted_suffix": "_unencrypted", "version": "3.13.3",
	}})
	return append(sealed, metadata...), err
}

// sopsWriter encrypts values in their order.
type sopsWriter struct {
	key []byte
	mac hash.Hash
}

func (w *sopsWriter) encrypt(node *yaml.Node, path []string) error {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if err := w.encrypt(node.Content[i+1], append(path[:len(path):len(path)], node.Content[i].Value)); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if err := w.encrypt(item, path); err != nil {
				return err
			}
		}
	case yaml.ScalarNode:
		kind, authenticated := "str", node.Value
		switch node.Tag {
		case "!!int":
			kind = "int"
		case "!!bool":
			kind, authenticated = "bool", strings.ToUpper(node.Value[:1])+node.Value[1:]
		case "!!str":
		default:
			return fmt.Errorf("%s: a value with the tag %s is not encrypted here", strconv.Quote(node.Value), node.Tag)
		}
		_, _ = w.mac.Write([]byte(authenticated))
		text, err := w.seal(authenticated, kind, strings.Join(path, ":")+":")
		if err != nil {
			return err
		}
		node.SetString(text)
	}
	return nil
}

// seal encrypts one value, bound to its path or to a time.
func (w *sopsWriter) seal(value, kind, bound string) (string, error) {
	block, err := aes.NewCipher(w.key)
	if err != nil {
		return "", fmt.Errorf("encrypt a value: %w", err)
	}
	iv := make([]byte, 32)
	_, _ = rand.Read(iv)
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return "", fmt.Errorf("encrypt a value: %w", err)
	}
	out := gcm.Seal(nil, iv, []byte(value), []byte(bound))
	data, tag := out[:len(out)-gcm.Overhead()], out[len(out)-gcm.Overhead():]
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:%s]", text(data), text(iv), text(tag), kind), nil
}
