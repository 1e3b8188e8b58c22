package sops

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
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

	encrypted, unencrypted *pattern
}

const (
	// maxKeys limits the keys of each kind that a file may name: each may be a request.
	maxKeys = 20
	// maxPattern limits a regular expression, in bytes, and maxProgram its compiled size, in instructions: it is matched
	// against each key of the file.
	maxPattern, maxProgram = 256, 1000
)

// pattern is a regular expression that is matched against each text once.
type pattern struct {
	*regexp.Regexp
	known map[string]bool
}

// newPattern compiles a regular expression; nil if it is invalid or too large.
func newPattern(text string) *pattern {
	if len(text) > maxPattern {
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil
	}
	return &pattern{regexp.MustCompile(text), map[string]bool{}}
}

func (p *pattern) matches(text string) bool {
	found, known := p.known[text]
	if !known {
		found = p.MatchString(text)
		p.known[text] = found
	}
	return found
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
	case len(m.Age) > maxKeys || len(m.PGP) > maxKeys || len(m.KMS) > maxKeys:
		return nil, fmt.Errorf("it is encrypted for more than %d keys of one kind", maxKeys)
	case m.rules() > 1:
		return nil, errors.New("more than one rule decides what of it is encrypted: use one of the suffixes and regular expressions")
	}
	for text, into := range map[string]**pattern{m.EncryptedRegex: &m.encrypted, m.UnencryptedRegex: &m.unencrypted} {
		if text == "" {
			continue
		}
		if *into = newPattern(text); *into == nil {
			return nil, fmt.Errorf("its regular expression %.60q is invalid, or too large", text)
		}
	}
	return m, nil
}

// rules counts the rules about what is encrypted. SOPS allows one.
func (m *metadata) rules() (n int) {
	for _, rule := range []string{m.UnencryptedSuffix, m.EncryptedSuffix, m.UnencryptedRegex, m.EncryptedRegex} {
		if rule != "" {
			n++
		}
	}
	return n
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
	if m.unencrypted != nil && anyOf(m.unencrypted.matches) {
		encrypted = false
	}
	if m.encrypted != nil {
		encrypted = anyOf(m.encrypted.matches)
	}
	return encrypted
}
