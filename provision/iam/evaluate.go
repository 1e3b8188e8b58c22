package iam

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Decision is whether policies allow a request.
type Decision string

// The decisions.
const (
	Allowed Decision = "Allowed"
	Denied  Decision = "Denied"
	// Unknown means that the policies contain something that plumbline does not evaluate.
	Unknown Decision = "Unknown"
)

// Answer is a Decision, and its reason.
type Answer struct {
	Decision Decision `json:"decision"`
	// Reason is why it is Unknown; empty otherwise.
	Reason string `json:"reason,omitempty"`
}

// Evaluate decides a request by all identity-based policies of a role: a Deny that applies wins, then an Allow, else the
// request is denied. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
func Evaluate(policies []Document, r Request) Answer {
	kind, known := resourceTypes[r.Action]
	switch {
	case !known:
		return Answer{Unknown, fmt.Sprintf("plumbline does not know the resources and condition keys of %s", r.Action)}
	case kind == "":
		r.Resource, r.ResourceTags = anything, noTags
	}
	denied, allowed := no, no
	for _, d := range policies {
		for _, s := range d.Statement {
			applies := s.applies(d, r)
			if s.Effect == Deny {
				denied = denied.or(applies)
			} else {
				allowed = allowed.or(applies)
			}
		}
	}
	switch {
	case denied.is == isTrue, allowed.is == isFalse:
		return Answer{Decision: Denied}
	case denied.is == isUnknown:
		return Answer{Unknown, denied.why}
	case allowed.is == isUnknown:
		return Answer{Unknown, allowed.why}
	}
	return Answer{Decision: Allowed}
}

// The values of three-valued logic.
const (
	isFalse = iota
	isTrue
	isUnknown
)

// truth is true, false, or unknown with a reason.
type truth struct {
	is  int
	why string
}

var no, yes = truth{is: isFalse}, truth{is: isTrue}

func unknown(format string, args ...any) truth { return truth{isUnknown, fmt.Sprintf(format, args...)} }

func truthOf(is bool) truth {
	if is {
		return yes
	}
	return no
}

func (t truth) or(other truth) truth {
	if t.is == isTrue || other.is == isFalse {
		return t
	}
	if other.is == isTrue || t.is == isFalse {
		return other
	}
	return t
}

func (t truth) not() truth {
	switch t.is {
	case isTrue:
		return no
	case isFalse:
		return yes
	}
	return t
}

func (t truth) and(other truth) truth { return t.not().or(other.not()).not() }

// anyOf is true if it is true for one of the items.
func anyOf[T any](items []T, is func(T) truth) truth {
	result := no
	for _, one := range items {
		result = result.or(is(one))
	}
	return result
}

// applies is true if a statement of a document is about the request.
func (s Statement) applies(d Document, r Request) truth {
	// Prefix and name of an action are not case-sensitive:
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_action.html
	named := func(pattern string) truth {
		return truthOf(like(strings.ToLower(pattern), strings.ToLower(r.Action)))
	}
	on := func(pattern string) truth { return d.matchesResource(pattern, r.Resource) }
	result := anyOf(s.Action, named)
	if len(s.NotAction) > 0 {
		result = anyOf(s.NotAction, named).not()
	}
	if len(s.NotResource) > 0 {
		result = result.and(anyOf(s.NotResource, on).not())
	} else {
		result = result.and(anyOf(s.Resource, on))
	}
	if result.is == isFalse {
		return no
	}
	for _, operator := range slices.Sorted(maps.Keys(s.Condition)) {
		keys := s.Condition[operator]
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			result = result.and(d.holds(operator, key, keys[key], r))
		}
	}
	return result
}

// variable matches a policy variable.
var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// hasVariable reports whether a text contains a variable, which plumbline does not evaluate.
func (d Document) hasVariable(text string) bool {
	return d.Version == languageVersion && variable.MatchString(text)
}

// matchesResource matches an ARN. An asterisk at the end of a part also matches colons; elsewhere that is not documented:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
func (d Document) matchesResource(pattern, arn string) truth {
	if d.hasVariable(pattern) {
		if !like(variable.ReplaceAllString(pattern, anything), arn) {
			return no
		}
		return unknown("the resource %s has a variable", pattern)
	}
	if !like(pattern, arn) {
		return no
	}
	if !matches(pattern, arn, true) {
		return unknown("the resource %s has a wildcard that would have to match a colon", pattern)
	}
	return yes
}

// like matches a pattern in which * is any number of characters and ? is one.
func like(pattern, text string) bool { return matches(pattern, text, false) }

// matches is like, but within parts only an asterisk at the end of a part matches colons. Its time is the product of both
// lengths.
func matches(pattern, text string, withinParts bool) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == text
	}
	p, t := []rune(pattern), []rune(text)
	// reached are the offsets in the text up to which the pattern so far matches.
	reached, next := make([]bool, len(t)+1), make([]bool, len(t)+1)
	reached[0] = true
	for i, c := range p {
		stops := withinParts && isWild(c) && !endsPart(p, i)
		next[0] = c == '*' && reached[0]
		for at, before := range t {
			if wild := isWild(c) && (!stops || before != ':'); c == '*' {
				next[at+1] = reached[at+1] || wild && next[at]
			} else {
				next[at+1] = reached[at] && (wild || c == before)
			}
		}
		reached, next = next, reached
	}
	return reached[len(t)]
}

func isWild(c rune) bool { return c == '*' || c == '?' }

// endsPart reports whether a character of a pattern is an asterisk at the end of a part.
func endsPart(pattern []rune, at int) bool {
	return pattern[at] == '*' && (at+1 == len(pattern) || pattern[at+1] == ':')
}

// operator is a condition operator:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
type operator struct {
	matches func(pattern, text string) bool
	negated bool
}

var operators = map[string]operator{
	"StringEquals":              {equal, false},
	"StringNotEquals":           {equal, true},
	"StringEqualsIgnoreCase":    {strings.EqualFold, false},
	"StringNotEqualsIgnoreCase": {strings.EqualFold, true},
	"StringLike":                {like, false},
	"StringNotLike":             {like, true},
	"Bool":                      {strings.EqualFold, false},
}

func equal(pattern, text string) bool { return pattern == text }

// The prefixes of operators for keys with several values:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
const (
	forAll = "ForAllValues"
	forAny = "ForAnyValue"
)

// null is the operator for keys that a request does not have.
const null = "Null"

// isNull is true if a key is absent, or is not, as the condition requires.
func isNull(key string, patterns Values, absent bool) truth {
	if len(patterns) != 1 || patterns[0] != "true" && patterns[0] != "false" {
		return unknown("the condition Null on %s is neither true nor false", key)
	}
	return truthOf(absent == (patterns[0] == "true"))
}

// operatorOf returns an operator by its name in a document, its prefix for keys with several values, and whether it ends
// with IfExists. known is false for one that plumbline does not evaluate.
func operatorOf(name string) (o operator, set string, ifExists, known bool) {
	set, base, found := strings.Cut(name, ":")
	if !found {
		set, base = "", name
	}
	base, ifExists = strings.CutSuffix(base, "IfExists")
	o, known = operators[base]
	return o, set, ifExists, known && (set == "" || set == forAll || set == forAny)
}

// holds is true if the request satisfies a condition: all keys of all operators have to match, one of the patterns of each.
func (d Document) holds(name, key string, patterns Values, r Request) truth {
	if _, _, _, known := operatorOf(name); !known && name != null {
		return unknown("plumbline does not evaluate the condition operator %s", name)
	}
	v, known := r.key(key)
	if !known {
		return unknown("plumbline does not know the value of the condition key %s", key)
	}
	return d.compare(name, key, patterns, v)
}

// compare is true if the value of a key satisfies a condition.
func (d Document) compare(name, key string, patterns Values, v value) truth {
	o, set, ifExists, known := operatorOf(name)
	switch {
	case !known && name != null:
		return unknown("plumbline does not evaluate the condition operator %s", name)
	case slices.ContainsFunc(patterns, d.hasVariable):
		return unknown("the condition on %s has a variable", key)
	case name == null:
		return isNull(key, patterns, len(v.texts) == 0)
	case len(v.texts) == 0:
		return truthOf(ifExists || set == forAll || o.negated && set == "")
	case v.multi && set == "":
		return unknown("the condition on %s, which has several values, has neither %s nor %s", key, forAll, forAny)
	}
	one := func(text string) truth {
		return truthOf(slices.ContainsFunc(patterns, func(p string) bool { return o.matches(p, text) }) != o.negated)
	}
	if set == forAll {
		return anyOf(v.texts, func(text string) truth { return one(text).not() }).not()
	}
	return anyOf(v.texts, one)
}
