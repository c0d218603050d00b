package llmtap

// Bounds on one body.
const (
	maxBody  = 16 << 20  // longer bodies are stubbed
	stubHalf = 256 << 10 // bytes at the start and at the end of a stubbed body
	maxError = 4 << 10   // bytes published of an error response if bodies are not captured
	// Bytes of the error response that are read: one more than maxError, to detect that the limit splits a word.
	errorRead = maxError + 1
	minGrow   = 4 << 10 // first allocation of a body
)

// A capture stores the bytes of one body. It reserves memory in the hook's queue before it allocates.
type capture struct {
	queue *queue
	// limit is the maximum number of bytes to store; if it is not positive, nothing is stored. A body longer than
	// maxBody is stubbed; a body longer than a smaller limit is truncated.
	limit int
	want  int64 // length of the body, the most to allocate; not positive if unknown

	buf      []byte
	tail     []byte // last bytes of a stubbed body, stubHalf or more
	reserved int64
	lost     bool // the body was dropped because memory ran out
}

func (c *capture) cut() bool { return c.tail != nil }

func (c *capture) write(p []byte) {
	if c.limit <= 0 || c.lost || len(p) == 0 {
		return
	}
	switch {
	case c.cut():
		c.writeTail(p)
	case len(c.buf)+len(p) <= c.limit:
		c.add(p)
	case c.limit < maxBody:
		c.add(p[:c.limit-len(c.buf)])
	default:
		c.stub(p)
	}
}

func (c *capture) add(p []byte) {
	if need := len(c.buf) + len(p); need > cap(c.buf) {
		size := min(max(need, 2*cap(c.buf), minGrow), c.limit)
		if int64(need) <= c.want && c.want < int64(size) {
			size = int(c.want)
		}
		if !c.setReserved(int64(size)) {
			return
		}
		c.buf = append(make([]byte, 0, size), c.buf...)
	}
	c.buf = append(c.buf, p...)
}

// expect allocates memory for the whole body if its length is known. The length must not come from a peer.
func (c *capture) expect() {
	if c.want > 0 && c.want <= int64(c.limit) && c.setReserved(c.want) {
		c.buf = make([]byte, 0, c.want)
	}
}

// clear forgets the body.
func (c *capture) clear() { c.buf, c.tail = c.buf[:0], nil }

// stub reduces a body that p extends beyond maxBody to its first and last bytes.
func (c *capture) stub(p []byte) {
	const size = 3 * stubHalf
	if !c.setReserved(max(c.reserved, size)) {
		return
	}
	head := make([]byte, 0, stubHalf)
	head = append(head, c.buf[:min(stubHalf, len(c.buf))]...)
	if need := stubHalf - len(head); need > 0 {
		head, p = append(head, p[:min(need, len(p))]...), p[min(need, len(p)):]
	}
	rest := c.buf[min(stubHalf, len(c.buf)):]
	c.buf, c.tail = head, make([]byte, 0, 2*stubHalf)
	c.writeTail(rest)
	c.writeTail(p)
	c.setReserved(size)
}

func (c *capture) writeTail(p []byte) {
	if len(p) > stubHalf {
		p = p[len(p)-stubHalf:]
	}
	if len(c.tail)+len(p) > 2*stubHalf {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-stubHalf:]...)
	}
	c.tail = append(c.tail, p...)
}

// setReserved changes the reservation to n bytes. If the queue has no room, setReserved drops the body and returns
// false.
func (c *capture) setReserved(n int64) bool {
	if !c.queue.reserve(n - c.reserved) {
		c.queue.release(c.reserved)
		c.buf, c.tail, c.reserved, c.lost = nil, nil, 0, true
		return false
	}
	c.reserved = n
	return true
}

// take returns the body and passes its reservation to the caller.
func (c *capture) take() (body []byte, reserved int64) {
	body, reserved = c.buf, c.reserved
	if c.cut() {
		body = append(body, c.tail[max(0, len(c.tail)-stubHalf):]...)
	}
	c.buf, c.tail, c.reserved = nil, nil, 0
	return body, reserved
}
