package sops

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Encrypted reports whether the values of a file were encrypted by SOPS.
func Encrypted(values map[string]any) bool {
	_, is := values[Key].(map[string]any)
	return is
}

// Plain returns the values of an encrypted file that can be read without a key: without the metadata, without encrypted
// values, and without lists that have some.
func Plain(values map[string]any) map[string]any {
	found := map[string]any{}
	for key, value := range values {
		if key == Key || sealed(value) {
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			value = Plain(inner)
		}
		found[key] = value
	}
	return found
}

// sealed reports whether a value is encrypted, or is a list that contains one that is.
func sealed(value any) bool {
	switch value := value.(type) {
	case string:
		return ciphertext.MatchString(value)
	case []any:
		for _, item := range value {
			inner, isMap := item.(map[string]any)
			if sealed(item) || isMap && sealedBelow(inner) {
				return true
			}
		}
	}
	return false
}

func sealedBelow(values map[string]any) bool {
	for _, value := range values {
		inner, isMap := value.(map[string]any)
		if sealed(value) || isMap && sealedBelow(inner) {
			return true
		}
	}
	return false
}

// Decrypt returns the values of a file with one YAML or JSON document, without the metadata. Errors: *KeyError; or an error
// that says what is wrong with the file.
func Decrypt(ctx context.Context, text []byte, keys Keys) (map[string]any, error) {
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Content) != 1 || file.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no map of values")
	}
	root := file.Content[0]
	m, err := metadataIn(root)
	if err != nil {
		return nil, err
	}
	key, err := keys.dataKey(ctx, m)
	if err != nil {
		return nil, err
	}
	w := &walk{metadata: m, key: key, mac: sha512.New()}
	if m.MACOnlyEncrypted {
		w.mac.Write(onlyEncrypted)
	}
	if err := w.mapping(ctx, root, nil); err != nil {
		return nil, err
	}
	want, err := open(m.MAC, key, m.modified())
	if text, ok := want.(string); err != nil || !ok || subtle.ConstantTimeCompare([]byte(text), fmt.Appendf(nil, "%X", w.mac.Sum(nil))) != 1 {
		return nil, errors.New("its message authentication code does not match: it was changed without sops, so edit it with sops")
	}
	var values map[string]any
	if err := root.Decode(&values); err != nil {
		return nil, errors.New("it repeats a key, or merges what is no map: encrypt it with sops")
	}
	return values, nil
}

// metadataIn returns the metadata of a document, and removes it.
func metadataIn(root *yaml.Node) (*metadata, error) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != Key {
			continue
		}
		var value any
		if err := root.Content[i+1].Decode(&value); err != nil {
			return nil, errors.New("its field sops cannot be read")
		}
		root.Content = append(root.Content[:i:i], root.Content[i+2:]...)
		return metadataOf(value)
	}
	return nil, errors.New("it has no field sops")
}

// onlyEncrypted is what the message authentication code starts with if it covers only encrypted values
// (MACOnlyEncryptedInitialization in sops.go, v3.13.3).
var onlyEncrypted = []byte{
	0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
	0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
}

// walk decrypts the values of a document in place, in their order.
type walk struct {
	*metadata
	key []byte
	mac hash.Hash
}

func (w *walk) mapping(ctx context.Context, node *yaml.Node, path []string) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		at := append(path[:len(path):len(path)], node.Content[i].Value)
		if err := w.node(ctx, node.Content[i+1], at); err != nil {
			return err
		}
		if node.Content[i+1].Kind == noNode {
			return fmt.Errorf("%s is a comment, which sops writes in lists only: it was changed without sops", strings.Join(at, "."))
		}
	}
	return nil
}

func (w *walk) node(ctx context.Context, node *yaml.Node, path []string) error {
	switch node.Kind {
	case yaml.MappingNode:
		return w.mapping(ctx, node, path)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if err := w.node(ctx, item, path); err != nil {
				return err
			}
		}
		node.Content = slices.DeleteFunc(node.Content, func(item *yaml.Node) bool { return item.Kind == noNode })
		return nil
	case yaml.ScalarNode:
		value, err := w.scalar(node, path)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
		return write(node, value)
	case yaml.AliasNode, yaml.DocumentNode:
	}
	return fmt.Errorf("%s is an alias of YAML, which sops does not write: encrypt the file with sops", strings.Join(path, "."))
}

// noNode is the kind of a node that was a comment: sops writes those of lists as items.
const noNode yaml.Kind = 0

// write replaces a value of the document by the decrypted one.
func write(node *yaml.Node, value any) error {
	switch value := value.(type) {
	case nil:
		return nil
	case comment:
		*node = yaml.Node{Kind: noNode}
		return nil
	case string:
		node.SetString(value)
		return nil
	case time.Time:
		node.SetString(value.Format(time.RFC3339Nano)) // values of a chart have no times
		return nil
	}
	return node.Encode(value)
}

// scalar decrypts one value, and adds it to the message authentication code.
func (w *walk) scalar(node *yaml.Node, path []string) (value any, err error) {
	if err := node.Decode(&value); err != nil {
		return nil, errors.New("it cannot be read")
	}
	if value == nil {
		return nil, nil
	}
	encrypted := w.isEncrypted(path)
	if encrypted {
		text, ok := value.(string)
		if !ok {
			return nil, errNotEncrypted
		}
		if value, err = open(text, w.key, strings.Join(path, ":")+":"); err != nil {
			return nil, err
		}
	}
	if _, isComment := value.(comment); !isComment && (encrypted || !w.MACOnlyEncrypted) {
		text, err := bytesOf(value)
		if err != nil {
			return nil, err
		}
		w.mac.Write(text)
	}
	return value, nil
}

var errNotEncrypted = errors.New("it is not encrypted, but must be: encrypt the file with sops")

// comment is a decrypted comment.
type comment string

// ciphertext matches an encrypted value (aes/cipher.go, v3.13.3).
var ciphertext = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:([a-z]+)\]$`)

// open decrypts one value, which is bound to its path or to a time.
func open(text string, key []byte, bound string) (any, error) {
	if text == "" {
		return "", nil
	}
	parts := ciphertext.FindStringSubmatch(text)
	if parts == nil {
		return nil, errNotEncrypted
	}
	var raw [3][]byte
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return nil, errors.New("it is damaged")
		}
	}
	data, iv, tag := raw[0], raw[1], raw[2]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.New("the data key has another size")
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	plain, err := gcm.Open(nil, iv, append(data, tag...), []byte(bound))
	if err != nil {
		return nil, errors.New("it does not match the data key of the file: it was changed or moved without sops")
	}
	return typed(string(plain), parts[4])
}

// typed converts a decrypted value to its type.
func typed(text, kind string) (value any, err error) {
	switch kind {
	case "str", "bytes":
		return text, nil
	case "int":
		value, err = strconv.Atoi(text)
	case "float":
		value, err = strconv.ParseFloat(text, 64)
	case "bool":
		value, err = strconv.ParseBool(text)
	case "time":
		value, err = time.Parse(time.RFC3339Nano, text)
	case "comment":
		return comment(text), nil
	default:
		return nil, fmt.Errorf("its type %s is unknown", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("it is no %s", kind)
	}
	return value, nil
}

// bytesOf returns what of a value is authenticated (ToBytes in sops.go, v3.13.3).
func bytesOf(value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		return []byte(value), nil
	case int:
		return strconv.AppendInt(nil, int64(value), 10), nil
	case float64:
		return strconv.AppendFloat(nil, value, 'f', -1, 64), nil
	case bool:
		if value {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return value.MarshalText()
	}
	return nil, fmt.Errorf("its type %T cannot be authenticated", value)
}
