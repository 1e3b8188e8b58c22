package sops

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Key is the name of the field with the metadata.
const Key = "sops"

// metadata is what SOPS adds to a file: https://github.com/getsops/sops, stores/stores.go, v3.13.3.
type metadata struct {
	Age []struct {
		Recipient string `json:"recipient"`
		Enc       string `json:"enc"`
	} `json:"age"`
	PGP []struct {
		Fingerprint string `json:"fp"`
		Enc         string `json:"enc"`
	} `json:"pgp"`
	KMS       []kmsKey `json:"kms"`
	GCP       []any    `json:"gcp_kms"`
	Huawei    []any    `json:"hckms"`
	Azure     []any    `json:"azure_kv"`
	Vault     []any    `json:"hc_vault"`
	KeyGroups []any    `json:"key_groups"`

	LastModified string `json:"lastmodified"`
	MAC          string `json:"mac"`

	UnencryptedSuffix       string `json:"unencrypted_suffix"`
	EncryptedSuffix         string `json:"encrypted_suffix"`
	UnencryptedRegex        string `json:"unencrypted_regex"`
	EncryptedRegex          string `json:"encrypted_regex"`
	UnencryptedCommentRegex string `json:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string `json:"encrypted_comment_regex"`
	MACOnlyEncrypted        bool   `json:"mac_only_encrypted"`

	encrypted, unencrypted *regexp.Regexp
}

// kmsKey is a data key that is encrypted by AWS KMS.
type kmsKey struct {
	ARN     string            `json:"arn"`
	Role    string            `json:"role"`
	Context map[string]string `json:"context"`
	Enc     string            `json:"enc"`
}

// metadataOf decodes the metadata of a file.
func metadataOf(value any) (*metadata, error) {
	m := &metadata{}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, errors.New("its field sops is not that of a file encrypted by sops")
	}
	switch {
	case len(m.KeyGroups) > 0:
		return nil, errors.New("it has key_groups, which are not supported: encrypt it for one group of keys")
	case m.UnencryptedCommentRegex != "" || m.EncryptedCommentRegex != "":
		return nil, errors.New("comments decide what of it is encrypted, which is not supported: use encrypted_regex or a suffix")
	case m.MAC == "":
		return nil, errors.New("it has no mac: encrypt it with sops")
	}
	for text, into := range map[string]**regexp.Regexp{m.EncryptedRegex: &m.encrypted, m.UnencryptedRegex: &m.unencrypted} {
		if text == "" {
			continue
		}
		if *into, err = regexp.Compile(text); err != nil {
			return nil, fmt.Errorf("its regular expression %q is invalid", text)
		}
	}
	return m, nil
}

// modified returns the time that the message authentication code is bound to.
func (m *metadata) modified() string {
	at, err := time.Parse(time.RFC3339, m.LastModified)
	if err != nil {
		return m.LastModified
	}
	return at.Format(time.RFC3339)
}

// unsupported returns the kinds of keys that are not supported.
func (m *metadata) unsupported() (kinds []string) {
	for _, one := range []struct {
		kind string
		keys []any
	}{{"GCP KMS", m.GCP}, {"Huawei Cloud KMS", m.Huawei}, {"Azure Key Vault", m.Azure}, {"HashiCorp Vault", m.Vault}} {
		if len(one.keys) > 0 {
			kinds = append(kinds, one.kind+" (not supported)")
		}
	}
	return kinds
}

// isEncrypted reports whether the value at a path is encrypted, as shouldBeEncrypted in sops.go, v3.13.3.
func (m *metadata) isEncrypted(path []string) bool {
	anyOf := func(is func(string) bool) bool {
		for _, key := range path {
			if is(key) {
				return true
			}
		}
		return false
	}
	encrypted := m.UnencryptedSuffix == "" || !anyOf(func(key string) bool { return strings.HasSuffix(key, m.UnencryptedSuffix) })
	if m.EncryptedSuffix != "" {
		encrypted = anyOf(func(key string) bool { return strings.HasSuffix(key, m.EncryptedSuffix) })
	}
	if m.unencrypted != nil && anyOf(m.unencrypted.MatchString) {
		encrypted = false
	}
	if m.encrypted != nil {
		encrypted = anyOf(m.encrypted.MatchString)
	}
	return encrypted
}
