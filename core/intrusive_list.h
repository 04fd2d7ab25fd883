// A FIFO of nodes that live in somebody else's memory: no allocation, no limit
// but the number of nodes. Not thread-safe.
#pragma once

#include "core/check.h"

namespace sluice {

// Base of what can stand in one FIFO at a time. Destroying a node that stands
// in a list is a bug.
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { SLUICE_DCHECK(!linked()); }

  bool linked() const { return next_ != nullptr; }

 private:
  template <typename T>
  friend class IntrusiveList;

  ListNode* next_ = nullptr;
  ListNode* previous_ = nullptr;
};

// T derives from ListNode.
template <typename T>
class IntrusiveList {
 public:
  IntrusiveList() { head_.next_ = head_.previous_ = &head_; }
  ~IntrusiveList() {
    SLUICE_DCHECK(empty());
    head_.next_ = nullptr;
  }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return head_.next_ == &head_; }
  T* front() const { return empty() ? nullptr : As(head_.next_); }
  // The element behind `node`, null at the end.
  T* after(const T* node) const {
    ListNode* next = static_cast<const ListNode*>(node)->next_;
    return next == &head_ ? nullptr : As(next);
  }

  void PushBack(T* item) { Insert(item, &head_); }
  void PushFront(T* item) { Insert(item, head_.next_); }

  T* PopFront() {
    T* item = front();
    if (item != nullptr) Remove(item);
    return item;
  }

  void Remove(T* item) {
    ListNode* node = item;
    SLUICE_DCHECK(node->linked());
    node->next_->previous_ = node->previous_;
    node->previous_->next_ = node->next_;
    node->next_ = node->previous_ = nullptr;
  }

  // Moves all of `other` behind what is here.
  void Append(IntrusiveList* other) {
    while (T* item = other->PopFront()) PushBack(item);
  }

 private:
  static T* As(ListNode* node) { return static_cast<T*>(node); }

  void Insert(T* item, ListNode* before) {
    ListNode* node = item;
    SLUICE_DCHECK(!node->linked());
    node->next_ = before;
    node->previous_ = before->previous_;
    before->previous_->next_ = node;
    before->previous_ = node;
  }

  ListNode head_;
};

}  // namespace sluice
