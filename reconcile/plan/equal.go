package plan

// equal compares JSON values; a number is a number, however it was decoded, and
// an empty map or list is not an absent one.
func equal(a, b any) bool {
	switch was := a.(type) {
	case map[string]any:
		is, ok := b.(map[string]any)
		return ok && equalMaps(was, is)
	case []any:
		is, ok := b.([]any)
		return ok && equalLists(was, is)
	case nil:
		return b == nil
	case string:
		is, ok := b.(string)
		return ok && was == is
	case bool:
		is, ok := b.(bool)
		return ok && was == is
	case int64:
		if is, ok := b.(int64); ok {
			return was == is
		}
	}
	return canonical(a) == canonical(b)
}

func equalMaps(a, b map[string]any) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for key, was := range a {
		is, both := b[key]
		if !both || !equal(was, is) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
