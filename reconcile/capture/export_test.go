package capture

// DecodeUpTo is Decode with another limit.
var DecodeUpTo = decode
