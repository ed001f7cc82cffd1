package transport

import "encoding/json"

// Decode reads the JSON of an answer; an empty answer is the zero value.
func Decode[T any](c *Client, raw []byte) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, c.Unreadable("no JSON of "+c.Name, raw, err)
	}
	return v, nil
}

// DecodeList reads a list of JSON. null is no empty list.
func DecodeList[T any](c *Client, raw []byte) (list []T, err error) {
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, c.Unreadable("no list of "+c.Name+"'s", raw, err)
	}
	return list, nil
}
