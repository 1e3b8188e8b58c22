package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Document is a policy.
type Document struct {
	Version   string
	ID        string `json:"Id"`
	Statement statements
}

// Statement is one statement of a policy.
type Statement struct {
	Sid, Effect             string
	Principal, NotPrincipal *Principals
	Action, NotAction       values
	Resource, NotResource   values
	Condition               map[string]map[string]values
}

// The effects of a statement.
const (
	allow = "Allow"
	deny  = "Deny"
)

// Principals are those in a trust policy: by AWS, Service or Federated; {"AWS": ["*"]} can be written "*".
type Principals map[string]values

// UnmarshalJSON implements json.Unmarshaler.
func (p *Principals) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte(`"*"`)) {
		*p = Principals{"AWS": {"*"}}
		return nil
	}
	named := map[string]values{}
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	*p = named
	return nil
}

// values are strings; a single one may be without brackets, and numbers and booleans are converted to text.
type values []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(b []byte) error {
	var list []any
	if len(b) == 0 || b[0] != '[' {
		b = fmt.Appendf(nil, "[%s]", b)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		return err
	}
	*v = nil
	for _, one := range list {
		switch one.(type) {
		case string, bool, json.Number:
			*v = append(*v, fmt.Sprint(one))
		default:
			return fmt.Errorf("%v is neither text, number nor boolean", one)
		}
	}
	return nil
}

// statements are a list; a single one may be without brackets.
type statements []Statement

// UnmarshalJSON implements json.Unmarshaler.
func (s *statements) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		b = fmt.Appendf(nil, "[%s]", b)
	}
	var list []Statement
	if err := strict(b, &list); err != nil {
		return err
	}
	*s = list
	return nil
}

func strict(b []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// versions are those of the policy language. Only the newer one supports variables.
const (
	newest = "2012-10-17"
	oldest = "2008-10-17"
)

// Parse parses a document and rejects anything that it does not support.
func Parse(text string) (Document, error) {
	var d Document
	if err := strict([]byte(text), &d); err != nil {
		return d, fmt.Errorf("read a policy: %w", err)
	}
	switch d.Version {
	case "":
		d.Version = oldest
	case newest, oldest:
	default:
		return d, fmt.Errorf("read a policy: its version is %q", d.Version)
	}
	if len(d.Statement) == 0 {
		return d, fmt.Errorf("read a policy: it has no statement")
	}
	for i := range d.Statement {
		if err := d.Statement[i].check(); err != nil {
			return d, fmt.Errorf("read a policy: statement %d (%s): %w", i+1, d.Statement[i].Sid, err)
		}
	}
	return d, nil
}

func (s *Statement) check() error {
	switch {
	case s.Effect != allow && s.Effect != deny:
		return fmt.Errorf("its effect is %q", s.Effect)
	case (len(s.Action) > 0) == (len(s.NotAction) > 0):
		return fmt.Errorf("it has to have one of Action and NotAction")
	case len(s.Resource) > 0 && len(s.NotResource) > 0:
		return fmt.Errorf("it has both Resource and NotResource")
	case s.Principal != nil && s.NotPrincipal != nil:
		return fmt.Errorf("it has both Principal and NotPrincipal")
	}
	for name := range s.Condition {
		if _, err := parseOperator(name); err != nil {
			return err
		}
	}
	return nil
}
