package allowance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// shape is what an open value may be. The chart writes most of them into YAML as
// they are, some through tpl: a text of the wrong shape could write other fields of
// the Deployment than its own.
type shape struct {
	// is what it should be, in words.
	is   string
	fits func(value any) bool
	// expression is a regular expression for all of a text that fits; empty if there is none.
	expression string
}

// text takes values that are written as one plain word, number or truth.
func text(is string, fits func(string) bool) shape {
	return shape{is: is, fits: func(value any) bool {
		switch value := value.(type) {
		case string:
			return value == "" || fits(value)
		case float64:
			return fits(strconv.FormatFloat(value, 'f', -1, 64))
		case bool, int, int64:
			return fits(fmt.Sprint(value))
		}
		return false
	}}
}

// pattern is compiled when it is first asked: most processes ask none.
func pattern(is, expression string) shape {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + expression + `)$`) })
	made := text(is, func(s string) bool { return compiled().MatchString(s) })
	made.expression = expression
	return made
}

var (
	flag     = pattern("true or false", `true|false`)
	number   = pattern("a number", `[0-9]{1,15}(\.[0-9]{1,20})?`)
	share    = pattern("a number or a percentage", `[0-9]{1,9}%?`)
	word     = pattern("a word", `[A-Za-z0-9][A-Za-z0-9._-]{0,252}`)
	endpoint = pattern("a URL", `https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._/-]*)?`)
	gates    = pattern("a list of Name=true or Name=false", `[A-Za-z]+=(true|false)(,[A-Za-z]+=(true|false))*`)
	duration = pattern("a duration", `0|([0-9]{1,9}(ns|us|ms)|[0-9]{1,6}(\.[0-9]{1,9})?(s|m)|[0-9]{1,5}(\.[0-9]{1,9})?h){1,6}`)
	amount   = text("a quantity", isQuantity)

	outputs = shape{is: "a list of stdout and stderr", fits: func(value any) bool {
		list, ok := value.([]any)
		return ok && !slices.ContainsFunc(list, func(one any) bool { return one != "stdout" && one != "stderr" })
	}}
	output = pattern("stdout or stderr", `std(out|err)(,std(out|err))*`)
	// labels and annotations go through toYaml, as maps of words.
	labels = shape{is: "a map of labels", fits: func(value any) bool {
		return each(value, func(key string, value any) bool {
			s, ok := value.(string)
			return ok && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(s)) == 0
		})
	}}
	// tree goes through toYaml, which lets nothing out of its place.
	tree = shape{is: "a map or a list", fits: func(value any) bool {
		switch value.(type) {
		case nil, map[string]any, []any:
			return true
		}
		return false
	}}
)

func oneOf(words ...string) shape {
	return pattern("one of "+strings.Join(words, ", "), strings.Join(words, "|"))
}

// each holds for all entries of a map; of anything else it does not hold.
func each(value any, holds func(key string, value any) bool) bool {
	entries, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range entries {
		if !holds(key, value) {
			return false
		}
	}
	return true
}

// isQuantity reads no text that takes long to read.
func isQuantity(s string) bool {
	if weigh.Quantity(s) != nil {
		return false
	}
	_, err := resource.ParseQuantity(s)
	return err == nil
}

// whole is a number without a fraction that is not negative.
var whole = pattern("a whole number", `[0-9]{1,9}|1[0-9]{9}`)

// few is how many pods there may be.
var few = text(fmt.Sprintf("a whole number from 1 to %d", mostReplicas), func(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && n >= 1 && n <= mostReplicas
})
