package policy

import (
	"maps"
	"slices"
	"strings"
)

// Request is the question whether an action is allowed.
type Request struct {
	// Action as in a policy: ec2:TerminateInstances.
	Action string
	// Resource is an ARN, or * if the action has no resource.
	Resource string
	// Caller contains the names by which a trust policy may refer to the caller, by kind: AWS, Service, Federated.
	Caller map[string][]string
	// Context contains the values of condition keys. A missing key is absent.
	Context Context
}

// Context contains the values of condition keys, which are case-insensitive.
type Context map[string][]string

// Set sets the values of a key.
func (c Context) Set(key string, values ...string) { c[strings.ToLower(key)] = values }

func (c Context) get(key string) ([]string, bool) {
	v, ok := c[strings.ToLower(key)]
	return v, ok
}

// Has reports whether the key has a value.
func (c Context) Has(key string) bool {
	_, ok := c.get(key)
	return ok
}

// Decision is the result of evaluating policies.
type Decision int

// The decisions.
const (
	ImplicitDeny Decision = iota // no statement allows it
	ExplicitDeny                 // a statement denies it
	Allow
)

// Identity evaluates the policies of an identity.
func Identity(documents []Document, r Request) Decision {
	return decide(documents, func(d Document, s *Statement) bool {
		return s.Principal == nil && s.NotPrincipal == nil && d.applies(s, r) && d.matchesResource(s, r)
	})
}

// Names reports whether some statement allows an action, for any resource and condition.
func Names(documents []Document, action string) bool {
	return slices.ContainsFunc(documents, func(d Document) bool {
		return slices.ContainsFunc(d.Statement, func(s Statement) bool { return s.Effect == allow && s.covers(action) })
	})
}

// Trust evaluates a role's trust policy, which has principals and no resource.
func Trust(document Document, r Request) Decision {
	return decide([]Document{document}, func(d Document, s *Statement) bool {
		return s.matchesCaller(r.Caller) && d.applies(s, r)
	})
}

func decide(documents []Document, matches func(Document, *Statement) bool) Decision {
	decision := ImplicitDeny
	for _, d := range documents {
		for i := range d.Statement {
			s := &d.Statement[i]
			if !matches(d, s) {
				continue
			}
			if s.Effect == deny {
				return ExplicitDeny
			}
			decision = Allow
		}
	}
	return decision
}

func (d Document) applies(s *Statement, r Request) bool {
	if !s.covers(r.Action) {
		return false
	}
	for name, keys := range s.Condition {
		o, err := parseOperator(name)
		if err != nil {
			return false // Parse has rejected it
		}
		for key, patterns := range keys {
			if !o.holds(d.expandAll(patterns, r.Context), key, r.Context) {
				return false
			}
		}
	}
	return true
}

// covers reports whether the statement applies to an action.
func (s *Statement) covers(action string) bool {
	named := func(patterns values) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return like(strings.ToLower(p), strings.ToLower(action)) })
	}
	if len(s.NotAction) > 0 {
		return !named(s.NotAction)
	}
	return named(s.Action)
}

func (d Document) matchesResource(s *Statement, r Request) bool {
	named := func(patterns values) bool {
		return slices.ContainsFunc(d.expandAll(patterns, r.Context), func(p string) bool { return like(p, r.Resource) })
	}
	if len(s.NotResource) > 0 {
		return !named(s.NotResource)
	}
	return named(s.Resource)
}

func (s *Statement) matchesCaller(caller map[string][]string) bool {
	named := func(p Principals) bool {
		for kind, patterns := range p {
			for _, pattern := range patterns {
				if pattern == "*" && kind == "AWS" && len(caller[kind]) > 0 || slices.Contains(caller[kind], pattern) {
					return true
				}
			}
		}
		return false
	}
	if s.NotPrincipal != nil {
		return !named(*s.NotPrincipal)
	}
	return s.Principal != nil && named(*s.Principal)
}

// expandAll replaces policy variables with the values of keys, if the document's version supports them.
func (d Document) expandAll(patterns values, c Context) []string {
	if d.Version != newest {
		return patterns
	}
	expanded := make([]string, 0, len(patterns))
	for _, p := range patterns {
		if e, ok := expand(p, c); ok {
			expanded = append(expanded, e)
		}
	}
	return expanded
}

// expand replaces ${key} and ${key, 'default'}; ${*}, ${?} and ${$} are those
// characters themselves. A pattern with a key that is absent matches nothing.
func expand(pattern string, c Context) (string, bool) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(pattern, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("${" + rest)
			return b.String(), true
		}
		pattern = after
		if strings.Contains("*?$", name) && len(name) == 1 {
			b.WriteString(literal(name))
			continue
		}
		key, fallback, hasDefault := strings.Cut(name, ",")
		values, ok := c.get(strings.TrimSpace(key))
		switch {
		case ok && len(values) == 1:
			b.WriteString(literal(values[0]))
		case hasDefault:
			b.WriteString(literal(strings.Trim(strings.TrimSpace(fallback), "'")))
		default:
			return "", false
		}
	}
}

// escape escapes the next character; no policy contains it.
const escape = '\x00'

func literal(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '*' || r == '?' {
			b.WriteRune(escape)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// like matches patterns with * for any number of characters and ? for one.
func like(pattern, s string) bool {
	for len(pattern) > 0 {
		switch c := pattern[0]; {
		case c == '*':
			for i := len(s); i >= 0; i-- {
				if like(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case c == escape && len(pattern) > 1:
			pattern = pattern[1:]
			if s == "" || s[0] != pattern[0] {
				return false
			}
		case s == "" || c != '?' && c != s[0]:
			return false
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

// plain returns a pattern with literal wildcards, for operators without wildcards.
func plain(pattern string) string { return strings.ReplaceAll(pattern, string(escape), "") }

// Keys returns the condition keys that documents name, sorted, each once.
func Keys(documents []Document) []string {
	seen := map[string]bool{}
	for _, d := range documents {
		for i := range d.Statement {
			for _, keys := range d.Statement[i].Condition {
				for key := range keys {
					seen[key] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Unconditional returns the document without its conditions.
func (d Document) Unconditional() Document {
	d.Statement = slices.Clone(d.Statement)
	for i := range d.Statement {
		d.Statement[i].Condition = nil
	}
	return d
}
