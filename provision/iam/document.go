package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The versions of the policy language. Variables such as ${aws:username} are literal text in the older one, which is the
// default: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html
const (
	languageVersion      = "2012-10-17"
	olderLanguageVersion = "2008-10-17"
)

// Document is an identity-based policy in IAM's JSON.
type Document struct {
	Version   string     `json:"Version,omitempty"`
	ID        string     `json:"Id,omitempty"`
	Statement statements `json:"Statement"`
}

// Effect is what a statement does.
type Effect string

// The effects.
const (
	Allow Effect = "Allow"
	Deny  Effect = "Deny"
)

// Statement is one statement of a policy.
type Statement struct {
	Sid         string    `json:"Sid,omitempty"`
	Effect      Effect    `json:"Effect"`
	Action      Values    `json:"Action,omitempty"`
	NotAction   Values    `json:"NotAction,omitempty"`
	Resource    Values    `json:"Resource,omitempty"`
	NotResource Values    `json:"NotResource,omitempty"`
	Condition   Condition `json:"Condition,omitempty"`
}

// Condition has the values by operator and key.
type Condition map[string]map[string]Values

// Values are texts; in JSON, a single one has no brackets.
type Values []string

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// UnmarshalJSON implements json.Unmarshaler. Booleans and numbers become text, as in IAM.
func (v *Values) UnmarshalJSON(raw []byte) error {
	var list []any
	if len(raw) == 0 || raw[0] != '[' {
		raw = fmt.Appendf(nil, "[%s]", raw)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		return err
	}
	texts := make(Values, 0, len(list))
	for _, one := range list {
		switch one := one.(type) {
		case string:
			texts = append(texts, one)
		case bool, json.Number:
			texts = append(texts, fmt.Sprint(one))
		default:
			return fmt.Errorf("%v is no text", one)
		}
	}
	*v = texts
	return nil
}

// statements are those of a document; in JSON, a single one may have no brackets.
type statements []Statement

// UnmarshalJSON implements json.Unmarshaler.
func (s *statements) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		raw = fmt.Appendf(nil, "[%s]", raw)
	}
	return strict(raw, (*[]Statement)(s))
}

// strict decodes JSON, and rejects unknown fields.
func strict(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the document")
	}
	return nil
}

// Parse parses a policy. It rejects elements that an identity-based policy does not have, such as Principal.
func Parse(text []byte) (Document, error) {
	var d Document
	if err := strict(text, &d); err != nil {
		return Document{}, fmt.Errorf("read an IAM policy: %w", err)
	}
	if d.Version != "" && d.Version != languageVersion && d.Version != olderLanguageVersion {
		return Document{}, fmt.Errorf("read an IAM policy: Version is %q, want %s or %s", d.Version, languageVersion, olderLanguageVersion)
	}
	if len(d.Statement) == 0 {
		return Document{}, errors.New("read an IAM policy: it has no statement")
	}
	for i, s := range d.Statement {
		if err := s.check(); err != nil {
			return Document{}, fmt.Errorf("read an IAM policy: statement %d: %w", i+1, err)
		}
	}
	return d, nil
}

// check returns what is wrong with a statement:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
func (s Statement) check() error {
	switch {
	case s.Effect != Allow && s.Effect != Deny:
		return fmt.Errorf("its Effect is %q, want %s or %s", s.Effect, Allow, Deny)
	case (len(s.Action) > 0) == (len(s.NotAction) > 0):
		return errors.New("it must have either Action or NotAction")
	case (len(s.Resource) > 0) == (len(s.NotResource) > 0):
		return errors.New("it must have either Resource or NotResource")
	}
	return nil
}
